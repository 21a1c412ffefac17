"""A damaged file ends in a result or in a sentence: no traceback, no hang, nothing else lost."""

import contextlib
import os
import random
import signal
import traceback
from collections import Counter
from pathlib import Path

import pytest

from telic.errors import TelicError
from telic.llm.work_orders import ORDERS
from tests.attacks.files import digest, files_of, furnish, mutate, unpack

SEED = int(os.environ.get("TELIC_ATTACK_SEED", "1"))
LONGEST_S = 20


class Hang(BaseException):
    """A case that did not end."""


@contextlib.contextmanager
def limited():
    def end(number, frame):
        raise Hang

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def readers(path: Path, home: Path):
    """Return what meets a file: (name, call)."""
    from telic.storage.scalars import read_columns
    from telic.storage.trajectories import read_trajectory
    from telic.training.policy import load_policy
    from telic.verbs import artifacts, control, session, study, study_runs

    runs, root = home / "runs", home / "repository"
    if path.suffix == ".toml":
        return written(path)
    if path.suffix == ".npz":
        return [("trajectory", lambda: read_trajectory(path))]
    if path.suffix == ".pt" and path.name != "state.pt":
        return [("policy", lambda: load_policy(path))]
    if path.is_relative_to(root):
        here = {"root": root}
        return [
            ("state", lambda: study_runs.status(**here)),
            ("next", lambda: study_runs.next_action(**here)),
            ("verify", lambda: study_runs.verify(**here)),
            ("check", lambda: study.contract(**here)),
            ("report", lambda: study_runs.report_study(**here)),
        ]
    name = path.relative_to(runs).parts[0]
    calls = [
        ("list", lambda: artifacts.list_artifacts(runs_dir=runs)),
        ("show", lambda: artifacts.show(name, runs_dir=runs)),
        ("watch", lambda: control.watch(name, runs_dir=runs)),
    ]
    if name.startswith("search_"):
        calls.append(("report", lambda: artifacts.report(name, runs_dir=runs)))
    if path.parent.name == ORDERS:
        own = {"session": str(path.parents[1])}
        calls.append(("orders", lambda: session.orders(**own)))
        calls.append(("order", lambda: session.orders("a", **own)))
    if "ended000" in name and path.suffix == ".json":
        calls.append(("report", lambda: artifacts.report(name, runs_dir=runs)))
        calls.append(("resume", lambda: control.resume(name, runs_dir=runs)))
    if "train" in path.parts:
        calls.append(("show run", lambda: artifacts.show(str(path.parents[0]), runs_dir=runs)))
    if path.name == "scalars.jsonl":
        calls.append(("columns", lambda: read_columns(path)))
        calls.append(("member", lambda: artifacts.show(str(path.parents[1]), runs_dir=runs)))
    return calls


def written(path: Path):
    """Return what meets a TOML file that people write."""
    from telic.bench.results import load_suite
    from telic.studies.draft import draft_adapter

    calls = {
        "suite": lambda: load_suite(str(path)),
        "pyproject": lambda: draft_adapter(path.parent),
    }
    return [(path.stem, calls[path.stem])]


def by_kind(home: Path) -> list[list[Path]]:
    """Return the files of each kind and origin: the many of a study are not tried more often."""
    kinds: dict[tuple[str, ...], list[Path]] = {}
    for path in files_of(home):
        top, *rest = path.relative_to(home).parts
        kinds.setdefault((top, rest[0] if top == "runs" else "", path.suffix), []).append(path)
    return list(kinds.values())


def attack(home: Path, count: int, seed: int) -> tuple[Counter, list[str]]:
    from telic.cli._output import show as print_result

    unpack(home)
    furnish(home)
    os.environ["TELIC_CONFIG_DIR"] = str(home / "config")
    kinds, rng = by_kind(home), random.Random(seed)
    summary, faults = Counter(), []
    for number in range(count):
        path = rng.choice(rng.choice(kinds))
        whole = path.read_bytes()
        bent = mutate(path, rng)
        path.write_bytes(bent)
        before = digest(home) if number % 25 == 0 else None
        for name, call in readers(path, home):
            if before is not None and name == "check":
                continue  # it puts down what it found
            try:
                with (
                    limited(),
                    open(os.devnull, "w") as nothing,
                    contextlib.redirect_stdout(nothing),
                ):
                    result = call()
                    if name in ("list", "show"):
                        print_result(result)
                summary["read"] += 1
            except TelicError as error:
                summary["refused"] += 1
                if not error.message.strip() or "\x1b" in str(error):
                    faults.append(f"{name} {path.name}: no sentence: {error!r}")
            except Hang:
                faults.append(f"{name} {path.relative_to(home)} ({number}): hangs")
            except BaseException:
                reported = traceback.format_exc().strip().splitlines()
                where = [line.strip() for line in reported if "telic/" in line][-1:]
                faults.append(f"{name} {path.relative_to(home)} ({number}): {reported[-1]} {where}")
        if before is not None and digest(home) != before:
            faults.append(f"reading {path.name} changed files ({number})")
        path.write_bytes(whole)
        summary["files"] += 1
    return summary, faults


@pytest.mark.parametrize("count", [15, pytest.param(150, marks=pytest.mark.slow)])
def test_a_damaged_file_ends_in_a_sentence(tmp_path, monkeypatch, count):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    summary, faults = attack(tmp_path, count, SEED)
    assert not faults, "\n".join(faults[:20])
    assert summary["refused"] and summary["read"], summary


@pytest.mark.long
def test_twenty_thousand_damaged_files_end_in_sentences(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    summary, faults = attack(tmp_path, 20_000, 1000 + SEED)
    print(dict(summary))
    assert not faults, f"{len(faults)} of {dict(summary)}:\n" + "\n".join(faults[:40])


def test_one_damaged_run_does_not_hide_the_others(tmp_path):
    from telic.verbs import artifacts

    unpack(tmp_path)
    for kind, of in (("config.json", "run"), ("session.json", "session")):
        broken = tmp_path / "runs" / f"{of}_broken"
        broken.mkdir()
        (broken / kind).write_text("[1, 2]")
    listed = artifacts.list_artifacts("run", runs_dir=tmp_path / "runs").data
    runs = {each.id: each.state for each in listed}
    assert (runs["halted"], runs["run_broken"]) == ("interrupted", "damaged")
    found = artifacts.list_artifacts("session", runs_dir=tmp_path / "runs").data
    states = {each.id: each.state for each in found}
    assert states["session_broken"] == "damaged" and len(states) == 2


@pytest.mark.parametrize("count", [40, pytest.param(3000, marks=pytest.mark.long)])
def test_a_damaged_state_ends_in_a_sentence(tmp_path, count):
    from telic.training.loop import restore_state
    from telic.training.setup import build_setup, load_rewards, make_environments
    from tests.training.small import small_job, train_here

    job = small_job(steps=512, env_args={"max_episode_steps": 10})
    run = train_here(job, tmp_path, should_stop=lambda: True)
    envs, rng = make_environments(job), random.Random(SEED)
    setup = build_setup(job, load_rewards(job), envs.training)
    assert restore_state(run.state, setup) is not None
    whole, summary = run.state.read_bytes(), Counter()
    for _ in range(count):
        run.state.write_bytes(whole)
        run.state.write_bytes(mutate(run.state, rng))
        try:
            with limited():
                restore_state(run.state, setup)
            summary["read"] += 1
        except TelicError as error:
            assert "--fresh" in str(error)
            summary["refused"] += 1
    assert summary["refused"] > count // 3, summary
