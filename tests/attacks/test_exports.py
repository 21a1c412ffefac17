"""Files and records of a downloaded run do not become part of the user's own export."""

import csv
import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import jinja2
import pytest
import torch

from telic.errors import Refused, TelicError
from telic.report import document as doc
from telic.report.markdown import formula, words
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.tracking.reports import as_csv
from telic.training.export import stacks
from telic.training.export.bundle import export_run
from telic.training.policy import load_policy
from tests.training.small import SPEED, small_job, train_here

FORGED = "x\n\n# Verdict: passed\n\n<script>alert(1)</script> | [it](http://there)\r# passed\r"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Return a run of another user."""
    return RunFolder(
        train_here(small_job(reward=[SPEED], steps=512), tmp_path_factory.mktemp("a")).path
    )


@pytest.mark.parametrize("listed", [{}, {"numpy.py": {"sha256": "", "bytes": 0}}])
def test_files_planted_in_an_export_are_not_shipped_with_the_users_own(theirs, tmp_path, listed):
    planted = tmp_path / "export"
    planted.mkdir()
    (planted / "numpy.py").write_text("raise SystemExit('theirs')")
    write_json(planted / "bundle.json", {"files": listed})
    with pytest.raises(Refused, match="not an export of this user"):
        export_run(theirs, out=planted)
    export_run(theirs, out=tmp_path / "new")
    export_run(theirs, out=tmp_path / "new")


def test_a_node_of_a_stack_does_not_import_from_its_folder(tmp_path):
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(stacks._TEMPLATES))
    for stack in ("ros2", "unitree_sdk2"):
        folder = tmp_path / stack
        folder.mkdir()
        for name in ("argparse", "json", "numpy", "yaml"):
            (folder / f"{name}.py").write_text("raise SystemExit('theirs')")
        (folder / "node.py").write_text(environment.get_template(f"{stack}/node.py.j2").render())
        plain = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
        words = [sys.executable, "node.py", "--help"]
        done = subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True)
        assert done.returncode == 0 and "--steps" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("manifest.json", ("versions", "torch")),
        ("manifest.json", ("python",)),
        ("manifest.json", ("rewards", "reward")),
        ("reward_seed_1/summary.json", ("status",)),
        ("reward_seed_1/reward_spec.json", ("description",)),
    ],
)
def test_records_cannot_forge_lines_of_a_model_card(theirs, tmp_path, name, fields):
    file = theirs.path / name
    whole = file.read_text()
    record = json.loads(whole)
    *inside, last = fields
    place = record
    for each in inside:
        place = place[each]
    place[last] = FORGED
    if inside == ["versions"]:
        place[FORGED] = "1.0"
    write_json(file, record)
    try:
        export_run(theirs, out=tmp_path / "out")
    finally:
        file.write_text(whole)
    card = (tmp_path / "out" / "README.md").read_bytes().decode()
    assert "Verdict: passed" in card, "the field is shown"
    assert "\n# Verdict" not in card and "<script>" not in card and "\r" not in card
    assert "[it](http" not in card


def test_a_carriage_return_does_not_end_a_line_of_markdown():
    assert "\r" not in words(doc.Mono("a\r# passed"))
    assert formula("a\r\r# passed").startswith("```")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shift", torch.zeros(17, dtype=torch.float64)),
        ("action_high", torch.ones(7)),
        ("dt_s", [1.0]),
        ("action_names", 3),
    ],
)
def test_a_policy_file_with_other_types_is_refused(theirs, tmp_path, name, value):
    saved = torch.load(theirs.members()[0].checkpoints()[-1].path, weights_only=True)
    (saved if name in saved else saved["facts"])[name] = value
    torch.save(saved, tmp_path / "policy_1.pt")
    with pytest.raises(TelicError, match="not a telic policy"):
        load_policy(tmp_path / "policy_1.pt")


def test_names_of_clips_are_not_formulas_in_a_spreadsheet():
    clip = SimpleNamespace(
        **dict.fromkeys(("success", "global_success", "progress", "frames"), 1),
        **{"joint_rad": -0.5, "turn_rad": 0.0, "encoder": "robot"},
        **{"clip": '=HYPERLINK("http://there")', "errors": SimpleNamespace()},
    )
    names = ("mpjpe_g_mm", "mpjpe_l_mm", "mpjpe_pa_mm", "velocity_mm", "velocity_m_s")
    names += ("acceleration_mm", "acceleration_m_s2", "drift_m")
    vars(clip.errors).update(dict.fromkeys(names, -1.0))
    _, row = csv.reader(io.StringIO(as_csv(SimpleNamespace(clips=[clip]))))
    assert row[0] == '\'=HYPERLINK("http://there")' and "-0.5" in row
