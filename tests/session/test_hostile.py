"""A reward that controls its worker completely changes no verdict of its session."""

import json

import numpy as np
import pytest

from telic.sandbox import host
from telic.sandbox.host import run_worker as run_for_real
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.storage.trajectories import read_trajectory
from telic.training.plan import PRESETS
from tests.session.quick import FAILING, Asking, _work_here, results

MEASURING = """
from telic import leaf

def judge(episode):
    speed = episode.quantity("forward_velocity").mean()
    return [
        leaf("runs", speed, zero=0.3, goal=3.0, unit="m/s", tag="slow"),
        leaf("lasts", episode.seconds, zero=0.0, goal=50.0, unit="s", tag="ends_early"),
    ]
"""
SCRIPT = {**FAILING, "judge_author": {"reasoning": "j", "source": MEASURING}}

ATTACK = """
import glob, json, os, pathlib, threading, time, zipfile
import numpy as np

RUN = pathlib.Path(os.getcwd()).parent
SESSION = RUN.parent.parent
HIDDEN = [SESSION / name for name in (
    "judge_fn.py", "author.json", "trial.json", "session.json", "summary.json", "asked.json",
    "iter_1/judgment.json", "iter_1/candidate.json", "iter_1/reward_fn.py",
    "iter_1/judged/reward_seed_1/episode_00.npz", "iter_1/train/summary.json",
    "iter_1/train/reward_seed_1/summary.json", "iter_1/train/config.json")]

def lie(path):
    with np.load(path) as file:
        columns = dict(file)
    if (columns["qvel"] == 99.0).all():
        return
    columns["qvel"][:] = 99.0  # as if it ran faster than anything
    with open(path, "wb") as file:
        np.savez(file, **columns)

def attack():
    while True:
        time.sleep(0.01)
        for path in HIDDEN:
            for act in (lambda: path.write_text("{}"), path.unlink,
                        lambda: path.parent.mkdir(parents=True)):
                try:
                    act()
                except OSError:
                    continue
                (RUN / "state" / "reached").write_text(str(path))
        for path in RUN.glob("*/trajectories/*.npz"):
            try:
                lie(path)
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                pass
        for path in RUN.glob("*/metrics/scalars.jsonl"):
            rows = path.read_text().splitlines()
            if rows and "99999" not in rows[-1] and '"eval"' in rows[-1]:
                row = json.loads(rows[-1]) | {"mean_return": 99999.0, "interval": [99999.0] * 2}
                with path.open("a") as file:
                    file.write(json.dumps(row) + chr(10))

threading.Thread(target=attack, daemon=True).start()
"""


def granted(work):
    """Let the trainer's worker be a real one whose reward may run any Python."""

    def run(entry, payload, **options):
        if entry != "telic.training._worker":
            return _work_here(entry, payload, **options)
        for reward in payload["job"]["rewards"]:
            reward |= {"source": reward["source"] + ATTACK, "trusted": True}
        return work(entry, payload, **options)

    return run


@pytest.fixture
def sessions(home, tmp_path):
    """An honest session, and one whose reward attacks, for which large batches leave it time."""
    home.delitem(PRESETS["default"], "HalfCheetah-v5")
    honest = Asking(home, tmp_path / "honest")
    honest.run(SCRIPT, seeds=(1,))
    home.setattr(host, "run_worker", granted(run_for_real))
    hostile = Asking(home, tmp_path / "hostile")
    hostile.run(SCRIPT, seeds=(1,))
    return honest.folder, hostile.folder


@pytest.mark.slow  # what it can reach: tests/training/test_grants, test_partition
def test_a_reward_with_all_of_python_cannot_change_a_verdict(sessions):
    honest, hostile = sessions
    trained = RunFolder(hostile.iteration(1).run.path)
    (member,) = trained.members()
    # It could do what its worker may do, so the attack is real ...
    lied = [(read_trajectory(each.path)["qvel"] == 99.0).all() for each in member.trajectories()]
    assert any(lied) or "99999" in member.scalars.read_text()
    assert not (trained.state.parent / "reached").exists()
    # ... and all that was asked, recorded, measured and said of it is what an honest one gets.
    assert results(hostile) == results(honest)
    for name in ("judge", "author", "config", "trial"):
        assert getattr(hostile, name).exists()
    assert hostile.judge.read_text() == honest.judge.read_text()
    for path in sorted(honest.iteration(1).judged_dir.rglob("*.npz")):
        twin = hostile.path / path.relative_to(honest.path)
        one, other = read_trajectory(path), read_trajectory(twin)
        assert all(np.array_equal(one[name], other[name]) for name in one.columns)
    scores = [each["judgment"] for each in read_json(hostile.iteration(1).judgment)["members"]]
    assert scores and "99" not in json.dumps([each["score"] for each in scores])
