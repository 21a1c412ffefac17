"""An attacker who can write every file of the study cannot forge a result.

What they do not have is the user's key and what lies outside of the folder. Every attempt has to be
noticed: by `verify`, by what `next` says, or because telic refuses to continue.
"""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from telic.errors import TelicError
from telic.studies.approvals import grant
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import SYSTEM
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.store import changed_files
from telic.studies.folder import StudyFolder
from telic.studies.launch.recovery import reconcile
from telic.studies.loop import needs_person, take_step
from telic.studies.next import next_step, note_next
from telic.studies.study import Study
from tests.studies.walk import world as worlds
from tests.studies.walk.person import AGENT, HUMAN, consent, new_idea
from tests.studies.walk.world import World

FREE = ("ledger.jsonl.lock", "heartbeat", "supervisor.log", "pid.json", "key")
"""signs of life: nothing rests on them"""
MOST_STEPS = 200
"""a loop that gets nowhere fails instead of hanging"""


class Sure(random.Random):
    """Every run finishes, with a score of its own."""

    def choices(self, *_, **__):
        return ["finished"]


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A study whose baseline was measured, audited and accepted by a person; made once."""
    home = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.make_template(home)
        world = World(home, Sure(3))
        worlds.enter(patch, world)
        for _ in range(MOST_STEPS):
            printed = note_next(world.study)
            if printed.action == "decide":
                break
            assert not needs_person(printed), printed
            take_step(world.study, printed, AGENT)
        assert printed.action == "decide", printed
        audit = printed.args["audit"]
        name = printed.args["candidate"]
        decide_candidate(world.study, name, "accept", HUMAN, "five seeds agree", audit=audit)
    return home


@pytest.fixture
def study(reported, tmp_path, monkeypatch):
    """Copy of the study at the path that its key and notes refer to."""
    kept = tmp_path / "kept"
    shutil.copytree(reported, kept)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(reported / "config"))
    worlds.enter(monkeypatch, World(reported, Sure(3)))
    yield Study(StudyFolder.find(reported / "repo"))
    for place in ("repo", "config"):
        shutil.rmtree(reported / place)
        shutil.copytree(kept / place, reported / place)


def noticed(study: Study) -> bool:
    """Return whether verify or next_step detects a problem."""
    fresh = Study(study.folder)
    try:
        if not fresh.ledger.verify().ok or changed_files(fresh):
            return True
        return next_step(fresh).action in ("repair", "agree")
    except TelicError:
        return True


# ---------------------------------------------------------------------------- files


def _files(study: Study) -> list[Path]:
    """Every file of the study that something rests on; the ledger has tests of its own."""
    files = [path for path in study.folder.path.rglob("*") if path.is_file()]
    files += [study.folder.adapter]
    return [
        path
        for path in sorted(files)
        if path.name not in FREE and path != study.folder.ledger and "locks" not in path.parts
    ]


def _better(text: str) -> str:
    """Return a file in which one number is larger, or one letter another."""
    for place, letter in enumerate(text):
        if letter in "12345678" and text[place - 1 : place] in (".", " ", ":"):
            return f"{text[:place]}9{text[place + 1 :]}"
    return text[:-3] + "x" + text[-2:]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_file_can_be_edited_emptied_or_removed_unnoticed(study, every):
    assert not noticed(study), "an honest study is not suspected"
    files = _files(study)
    assert {"evidence", "runs", "candidates"} <= {part for path in files for part in path.parts}
    kinds = {tuple(part for part in path.parts if "-" not in part): path for path in files}
    unnoticed = []
    for path in files if every else kinds.values():
        held = path.read_bytes()
        for forged in {_better(held.decode(errors="replace")).encode(), b"{}\n", None} - {held}:
            path.unlink() if forged is None else path.write_bytes(forged)
            if not noticed(study):
                unnoticed.append((path, forged))
        path.write_bytes(held)
    assert unnoticed == []


def test_nothing_is_added_to_a_run_or_measured_from_changed_bytes(study):
    for name in study.state.runs:
        log = study.folder.run(name) / "artifacts/metrics.jsonl"
        held = log.read_text()
        log.write_text('{"step": 1, "success": 0.99, "falls": 0.0}\n')
        with pytest.raises(TelicError, match="E_ARTIFACTS"):
            analyze_run(Study(study.folder), name, AGENT)
        log.write_text(held)
        assert analyze_run(Study(study.folder), name, AGENT).payload["primary"] < 0.9
    log.with_name("better.csv").write_text("step,success\n1,0.99\n")
    assert noticed(study)


@pytest.mark.parametrize("how", ["log", "log and list", "exit", "exit and list", "no seal"])
def test_a_run_is_not_forged_between_its_end_and_the_ledger(study, how, monkeypatch):
    """The supervisor has written its exit record, which is not settled yet."""
    world = World(study.root.parent, Sure(4))
    worlds.enter(monkeypatch, world)
    printed = next_step(study)
    for _ in range(MOST_STEPS):
        if printed.action == "launch":
            break
        take_step(world.study, printed, AGENT) if not needs_person(printed) else propose(world)
        printed = note_next(world.study)
    assert printed.action == "launch", printed
    take_step(world.study, printed, AGENT)
    (name,) = Study(study.folder).state.active_runs
    folder = study.folder.run(name)
    forge_end(folder, how)
    reconcile(Study(study.folder))
    settled = Study(study.folder)
    if settled.state.runs[name].status == "finished":
        assert how == "log"
        with pytest.raises(TelicError, match="E_ARTIFACTS"):
            analyze_run(settled, name, AGENT)
    else:
        assert "its exit record is invalid" in settled.state.runs[name].why


def propose(world):
    name = new_idea(world, world.study)
    take_step(world.study, note_next(world.study), AGENT)
    grant(world.study, "experiment", consent(), candidate=name)


def forge_end(folder: Path, how: str) -> None:
    log, listed, end = (
        folder / "artifacts/metrics.jsonl",
        folder / "artifacts.json",
        folder / "exit.json",
    )
    record = json.loads(end.read_text())
    if "exit" not in how:
        log.write_text('{"step": 1, "success": 0.99, "falls": 0.0}\n')
    if "list" in how:
        names = json.loads(listed.read_text())
        names["artifacts/metrics.jsonl"] = hashlib.sha256(log.read_bytes()).hexdigest()
        listed.write_text(json.dumps(names))
        if "exit" in how:
            record["artifacts"] = hashlib.sha256(listed.read_bytes()).hexdigest()
    if "exit" in how:
        record["wall_s"] = 0.0
        end.write_text(json.dumps(record))
    if how == "no seal":
        record.pop("seal")
        end.write_text(json.dumps(record))


# ---------------------------------------------------------------------------- the ledger


def _rechained(study: Study, lines: list[dict], keeps: bool = False) -> bytes:
    """Return events as a chain whose every hash is right: what a forger without the key can do."""
    out, before = b"", hashlib.sha256(study.name.encode()).hexdigest()
    for number, line in enumerate(lines, start=1):
        entry = {**line["entry"], "seq": number, "prev": before}
        text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
        before = hashlib.sha256(text.encode()).hexdigest()
        sig = json.dumps(line["sig"] if before == line["hash"] or keeps else None)
        out += f'{{"entry":{text},"hash":"{before}","sig":{sig}}}\n'.encode()
    return out


def _lines(study: Study) -> list[dict]:
    return [json.loads(line) for line in study.folder.ledger.read_bytes().splitlines()]


def _forge(study: Study, lines: list[dict], *, keeps: bool = False) -> None:
    """Write a chain, with the signatures of changed lines removed or kept."""
    study.folder.ledger.write_bytes(_rechained(study, lines, keeps))


def _refuses_to_continue(study: Study) -> bool:
    with pytest.raises(TelicError, match="E_LEDGER_BROKEN"):
        Study(study.folder).append("note.added", None, {"text": "later"}, SYSTEM)
    return noticed(study)


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_rewritten_chain_is_detected_at_every_line_and_field(study, stride):
    lines = _lines(study)
    other = {
        "at": "2026-01-01T00:00:00.000Z",
        "kind": "note.added",
        "actor": {"kind": "human", "name": "mallory"},
        "subject": "c-0009-mine",
    }
    for number, line in list(enumerate(lines))[::stride]:
        for key, value in {**other, "data": {**line["entry"]["data"], "x": 1}}.items():
            forged = json.loads(json.dumps(lines))
            forged[number]["entry"][key] = value
            _forge(study, forged)
            assert _refuses_to_continue(study), (number + 1, key)


@pytest.mark.parametrize("stride", [19, pytest.param(1, marks=pytest.mark.slow)])
def test_a_chain_cut_short_or_with_a_line_left_out_is_noticed(study, stride):
    lines = _lines(study)
    for number in {*range(0, len(lines), stride), len(lines) - 1}:
        for kept in (lines[: number or 1], [*lines[:number], *lines[number + 1 :]]):
            _forge(study, kept)
            assert _refuses_to_continue(study), number


FORGED = (
    ("approval.granted", {"key": "budget", "by": "human:ada", "method": "tty"}),
    ("decision.recorded", {"verdict": "accept", "to": "accepted", "decision": "d-0099"}),
    ("incumbent.changed", {"to": "c-0002-mine", "iqm": 0.99}),
    ("run.finished", {"run": "r-1", "actual": {}}),
    ("evidence.added", {"id": "e-1", "kind": "metrics", "hash": "0" * 64}),
    ("candidate.completed", {"to": "completed"}),
    ("contract.amended", {"version": 9, "hash": "0" * 64}),
    ("study.status", {"status": "open"}),
    ("note.added", {"text": "harmless"}),
)


def test_a_line_added_without_the_key_is_noticed(study):
    lines = _lines(study)
    human = {"kind": "human", "name": "ada"}
    for kind, data in FORGED:
        fields = {"kind": kind, "actor": human, "subject": "c-0001-baseline", "data": data}
        _forge(study, [*lines, {**lines[-1], "entry": {**lines[-1]["entry"], **fields}}])
        assert _refuses_to_continue(study), kind


def test_a_ledger_cut_short_is_noticed_when_the_notes_are_gone_too(study):
    """Every line that is left was signed with this key; only the missing notes show it."""
    shutil.rmtree(Path(os.environ["TELIC_CONFIG_DIR"]) / "heads")
    lines = study.ledger.path.read_bytes().splitlines(keepends=True)
    for left in (1, 5, 12):
        study.ledger.path.write_bytes(b"".join(lines[:left]))
        check = Study(study.folder).ledger.verify()
        assert not check.ok and "the record of its last line is missing" in check.why
        assert _refuses_to_continue(study)


def test_a_persons_decision_without_their_signature_is_noticed_on_any_machine(study):
    """Also where nothing is noted: after a copy, on another machine of the same person."""
    lines = _lines(study)
    (Path(os.environ["TELIC_CONFIG_DIR"]) / "heads").rename(study.root.parent / "heads-away")
    for name in ("verdict", "audit", "decision_hash"):
        for keeps in (False, True):
            forged = json.loads(json.dumps(lines))
            (decided,) = [x for x in forged if x["entry"]["kind"] == "decision.recorded"]
            decided["entry"]["data"].update({name: "x"})
            _forge(study, forged, keeps=keeps)
            assert not Study(study.folder).ledger.verify().ok, name


def test_the_note_outside_cannot_be_written_without_the_key(study):
    notes = [*(Path(os.environ["TELIC_CONFIG_DIR"]) / "heads").glob("*.json")]
    lines = _lines(study)
    _forge(study, lines[:-3])
    last = _lines(study)[-1]
    for note in notes:
        forged = json.loads(note.read_text())
        forged["head"], forged["coming"] = {"seq": last["entry"]["seq"], "hash": last["hash"]}, None
        note.write_text(json.dumps(forged))
    assert noticed(study)
