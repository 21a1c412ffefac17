"""Session folders with something in them, made without training."""

import json
import time
from pathlib import Path

import torch

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.judges.criteria import Composition, Criterion
from telic.session.certificate import Certificate
from telic.session.evidence import SessionJournal, record_end
from telic.session.records import PASSES, SessionSummary
from telic.storage.files import read_record, write_json, write_text
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.scalars import ScalarLog
from tests.training.small import SPEED

CRITERIA = (
    Criterion(title="runs forward", quantity="forward speed", zero=0.0, goal=4.0, unit="m/s"),
    Criterion(title="stays upright", quantity="tilt", direction="at_most"),
)
JUDGE = "def judge(episode):\n    return []\n"


def until(ready, seconds=240.0):
    """Wait for something; fail if it does not happen."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def asked(**options) -> SessionConfig:
    """Return a small request."""
    return SessionConfig(**{"intent": "run forward", "env": "HalfCheetah-v5", **options})


def begun(folder):
    """Return the journal of a session that was begun."""
    config = read_record(folder.config, SessionConfig)
    records = SessionJournal(folder, config.intent, config.env, config.terms)
    records.open()
    return records


def make_session(runs_dir: Path, name: str = "session_20260102_030405_abcd1234", **config):
    """Return a session that was asked for and authored, and not begun."""
    folder = SessionFolder(runs_dir / name)
    folder.path.mkdir(parents=True)
    write_json(folder.config, asked(**config))
    author = Composition(
        intent="run forward",
        env="HalfCheetah-v5",
        criteria=CRITERIA,
        reward=SPEED,
        judge=JUDGE,
        env_args={"max_episode_steps": 20},
        steps=256,
        doubts=(),
        not_understood=(),
    )
    write_json(folder.author, author)
    write_text(folder.judge, JUDGE)
    return folder


def add_iteration(folder: SessionFolder, number: int, *, score: float | None = 0.5, **changes):
    """Add an iteration that was trained and judged."""
    files = folder.iteration(number)
    parent = number - 1 or None
    candidate = RewardCandidate(
        reward=SPEED, env_args={}, steps=256, parent=parent, change="faster"
    )
    write_json(files.candidate, candidate)
    write_text(files.reward, SPEED)
    add_run(files.path / "train", steps=256)
    (files.path / "train" / "state.pt").write_bytes(b"large")
    record = {
        "number": number,
        "parent": parent,
        "change": "faster",
        "passed": False,
        "score": score,
        "variant": 0,
        "best": "reward_seed_1",
        "tags": ("too_slow",),
        "members": (),
        "training_s": 1.0,
        "judging_s": 0.5,
        **changes,
    }
    write_json(files.judgment, SessionIteration(**record))


def summary_of(folder: SessionFolder, **changes) -> SessionSummary:
    """Return the summary of a session whose first iteration passed."""
    request = read_record(folder.config, SessionConfig) if folder.config.exists() else asked()
    given = {
        "session": folder.name,
        "intent": request.intent,
        "env": request.env,
        "outcome": "passed",
        "iterations": 1,
        "best_iteration": 1,
        "best_member": "reward_seed_1",
        "score": 0.9,
        "low": 0.85,
        "seconds": 60.0,
        "not_understood": (),
        "doubts": (),
    }
    return SessionSummary(**{**given, **changes})


def end(folder: SessionFolder, summary: SessionSummary) -> None:
    """End a session as the loop does: a pass with its certificate, everything sealed."""
    if summary.outcome in PASSES:
        write_json(folder.certificate, Certificate(judge_hash=None, reward_hashes={}, good="me"))
    best = None
    if summary.best_iteration is not None and summary.best_member is not None:
        best = summary.best_iteration, summary.best_member, summary.best_step
    record_end(folder, summary, best)


def add_run(path: Path, *, steps: int, members: int = 1, finished: bool = True, **facts):
    """Add a training with metrics up to `steps` per member."""
    run = RunFolder(path)
    names = [f"reward_seed_{seed}" for seed in range(1, members + 1)]
    job = {"env": "HalfCheetah-v5", "device": "cpu", "members": names}
    write_json(run.config, {**job, **facts.pop("config", {})})
    for seed in range(1, members + 1):
        member = run.member("reward", seed)
        log = ScalarLog(member.scalars)
        for step in (steps // 2, steps):
            log.append({"global_step": step, "loss": 0.1})
        log.close()
        member.checkpoints_dir.mkdir(parents=True)
        torch.save({}, member.checkpoint(steps))
    if finished:
        summary = {"total_timesteps": steps * members, "training_time_s": 10.0}
        write_json(run.summary, {**summary, **facts})
    return run


def leaves(value, path=()):
    """Yield the place of every value in JSON."""
    if isinstance(value, dict | list):
        for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield from leaves(part, (*path, key))
    else:
        yield path


def bent(value, path):
    """Return JSON with the value at a place replaced by another of its kind."""
    copied = json.loads(json.dumps(value))
    place = copied
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    place[path[-1]] = f"{old}!" if isinstance(old, str) else 1.0 if old is None else old + 1
    return copied
