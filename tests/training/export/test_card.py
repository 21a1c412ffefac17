import json
import re
import shutil

import pytest

from telic.storage.files import read_json, write_json
from telic.storage.layout import RunFolder
from telic.training.export.bundle import Contents, card, gather
from telic.training.policy import load_policy

CONTENTS = Contents(
    files={"policy.onnx": "ONNX"}, deviations={"policy.onnx": 2.5e-7}, curve="c.svg", video=None
)


@pytest.fixture
def run(trained, tmp_path):
    path = tmp_path / "small"
    shutil.copytree(trained.path, path)
    return RunFolder(path)


def write_card(run, step=512, policy=None):
    member = next(each for each in run.members() if each.name == "reward_seed_1")
    policy = policy or load_policy(member.path, step)
    return card(gather(run, member, policy), CONTENTS)


def front_matter(text):
    return re.match(r"---\n(.*?)\n---\n", text, re.S)[1]


def section(text, title):
    return re.search(rf"\n## {title}\n(.*?)(\n## |\Z)", text, re.S)[1]


def evaluation(run, step):
    lines = (run.path / "reward_seed_1" / "metrics" / "scalars.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return next(row for row in rows if row.get("type") == "eval" and row["global_step"] == step)


def test_unmeasured_values_are_marked(run):
    member = run.path / "reward_seed_1"
    (member / "metrics" / "scalars.jsonl").unlink()
    (member / "summary.json").unlink()
    text = write_card(run)
    assert 'value: "not measured"' in front_matter(text)
    assert "Return: not measured." in section(text, "Evaluation")
    assert "**Return not measured** on no evaluation episodes" in text
    assert "time of the run | not measured" in section(text, "Training")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("InvertedPendulum-v5", "MIT license"),
        ("/home/me/robots/dog.xml", "model file of the author"),
        ("package.module:Walker", "`package.module:Walker`"),
    ],
)
def test_license_of_assets_is_stated_or_unknown(run, env, expected):
    path = run.path / "reward_seed_1" / "config.json"
    write_json(path, {**read_json(path), "env": env})
    text = write_card(run)
    license = section(text, "License")
    assert expected in license
    assert ("is unknown. Add it" in license) == (env != "InvertedPendulum-v5")
    assert "/home/me" not in text
