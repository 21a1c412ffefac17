"""The index of a long ledger: the same answers, for anybody who may not write them himself."""

import json
import random

import pytest

from telic.errors import TelicError
from telic.studies import ledger as module
from telic.studies.chain import EVENT_TYPES
from telic.studies.documents.base import SYSTEM
from telic.studies.documents.candidate import RunStatus
from telic.studies.errors import BrokenIntegrity
from telic.studies.index import index_file
from telic.studies.ledger import Ledger
from telic.studies.queue import PlannedJobs, queue_of
from telic.studies.state import EvidenceState, RunState, StudyState
from telic.studies.state_file import committed_head, save, save_next
from telic.studies.table import RecordTable
from tests.studies.core.long_ledger import lengthen, life


@pytest.fixture
def long_study(study, monkeypatch):
    """A study with a ledger of 140 lines, which here is long enough for an index."""
    monkeypatch.setattr(module, "SMALLEST", 50)
    monkeypatch.setattr(module, "_SMALL", 1)
    lengthen(study.ledger, life(140))
    assert index_file(study.folder).is_file()
    return study


def without_index(study) -> Ledger:
    """The ledger as it is read line by line."""
    index, held = index_file(study.folder), index_file(study.folder).read_bytes()
    index.unlink()
    ledger = Ledger(study.folder)
    ledger.state()
    index.write_bytes(held)
    return ledger


def projected(ledger: Ledger):
    """What a ledger comes to, but for what saves work: that it changes nothing is shown below."""
    return ledger.projection().model_copy(update={"settled": None, "touched": frozenset()})


def queue(ledger: Ledger):
    """The jobs of a ledger and what became of them."""
    seen = ledger.projection()
    planned = PlannedJobs(seen.policy, seen.jobs, seen.settled, seen.touched)
    return queue_of(planned, seen.state, seen.run_revisions).jobs


def later_lines(luck: random.Random, state: StudyState):
    """Lines about candidates that there are: runs, other revisions, jobs put off, new ones."""
    name = luck.choice(list(state.candidates))
    number = int(name.split("-")[1])
    job = f"{name}/1/promotion/{luck.randrange(20)}"
    run = f"r-{luck.randrange(10**6):06d}"
    about = {"run": run, "candidate": name, "phase": "promotion", "seed": luck.randrange(20)}
    ends = luck.choice(("finished", "failed", "killed", "lost"))
    yield "launch.intent", name, {**about, "nonce": run, "reservation": {}}
    if luck.random() < 0.8:
        yield f"run.{ends}", run, {"run": run, "actual": {}, "by": "user"}
    if luck.random() < 0.3:
        yield "candidate.revised", name, {"revision": 2}
    change = {"status": luck.choice(("cancelled", "waiting")), "reason": "so"}
    yield "queue.step", None, {"changes": {job: change}}
    if luck.random() < 0.5:
        new = {"job_id": f"new-{run}", "candidate": name, "phase": "promotion", "seed": number}
        yield "queue.planned", name, {"jobs": [new]}


def test_what_became_of_jobs_is_the_same_whatever_was_known_of_them_before(long_study):
    luck = random.Random(5)
    seen = set()
    for _ in range(12):
        known = Ledger(long_study.folder).state()
        lines = [x for _ in range(luck.randrange(1, 9)) for x in later_lines(luck, known)]
        lengthen(Ledger(long_study.folder), iter(lines))
        quick, plain = Ledger(long_study.folder), without_index(long_study)
        assert quick.projection().settled is not None and plain.projection().settled is None
        assert queue(quick) == queue(plain)
        seen |= {job.status for job in queue(quick)}
    assert {"done", "failed", "running", "cancelled", "waiting"} <= seen


def test_an_indexed_ledger_answers_as_one_that_was_read(long_study):
    luck = random.Random(1)
    for _ in range(3):
        plain, quick = without_index(long_study), Ledger(long_study.folder)
        assert quick.state() == plain.state() and quick.head == plain.head
        assert quick._index is not None and projected(quick) == projected(plain)
        assert quick.events() == plain.events()
        assert quick.check() == plain.verify() == quick.verify()
        for _ in range(6):
            types = luck.sample(sorted(EVENT_TYPES), luck.randrange(1, 8))
            subjects = {x.subject for x in plain.events() if x.subject and luck.random() < 0.1}
            about = luck.choice((None, subjects))
            assert quick.events_of(*types, about=about) == [
                x
                for x in plain.events()
                if x.type in types and (about is None or x.subject in about)
            ]
        # it goes on, and what was indexed before and after comes to the same
        for number in range(luck.randrange(1, 12)):
            name = luck.choice(list(quick.state().candidates))
            facts = {"text": f"{number}", "request_key": None}
            quick.append("note.added", name, facts, SYSTEM)


def test_amounts_that_are_held_when_an_index_is_made_are_settled_after_it(study, monkeypatch):
    monkeypatch.setattr(module, "SMALLEST", 4)
    monkeypatch.setattr(module, "_SMALL", 1)
    about = {"run": "r-1", "candidate": "c-0001-x", "phase": "smoke", "seed": 1}
    reserved = {**about, "reservation": {"wall_clock_h": 2.0}}
    study.ledger.append("candidate.created", "c-0001-x", {"kind": "config"}, SYSTEM)
    study.ledger.append("launch.intent", "c-0001-x", reserved, SYSTEM)
    for _ in range(9):
        study.ledger.append("note.added", None, {"text": "x"}, SYSTEM)
    later = Ledger(study.folder)
    assert later.state().budget.reserved.wall_clock_h == 2.0 and later._index is not None
    later.append("run.finished", "r-1", {"run": "r-1", "actual": {"wall_clock_h": 0.5}}, SYSTEM)
    for ledger in (Ledger(study.folder), without_index(study)):
        budget = ledger.state().budget
        assert (budget.spent.wall_clock_h, budget.spent.launches) == (0.5, 1)
        assert not budget.reserved.wall_clock_h
        assert ledger.state().spent_by_candidate["c-0001-x"].wall_clock_h == 0.5


def test_no_byte_of_an_indexed_ledger_is_changed_unnoticed(long_study):
    path, luck = long_study.folder.ledger, random.Random(2)
    held = path.read_bytes()
    for _ in range(12):
        place = luck.randrange(len(held))
        path.write_bytes(
            held[:place] + bytes([held[place] ^ 1 << luck.randrange(7)]) + held[place + 1 :]
        )
        assert not Ledger(long_study.folder).check().ok
        with pytest.raises(TelicError):
            Ledger(long_study.folder).append("note.added", None, {"text": "later"}, SYSTEM)
    path.write_bytes(held)
    assert Ledger(long_study.folder).check().ok


def test_an_index_that_somebody_wrote_counts_for_nothing(long_study):
    path, luck = index_file(long_study.folder), random.Random(3)
    held, told = path.read_bytes(), without_index(long_study).state()
    first, _, body = held.partition(b"\n")
    head = json.loads(first)
    better = body.replace(b'"rejected"', b'"accepted"', 1)
    forged = [first + b"\n" + better, b"", b"{}\n{}", body, first, held[: len(held) // 2]]
    forged += [json.dumps({**head, "study": "other/study"}).encode() + b"\n" + body]
    forged += [json.dumps({**head, "made_by": "0" * 64}).encode() + b"\n" + body]
    for _ in range(6):
        place = luck.randrange(len(held))
        forged.append(held[:place] + bytes([held[place] ^ 1]) + held[place + 1 :])
    for content in forged:
        path.write_bytes(content)
        assert Ledger(long_study.folder).state() == told
    path.write_bytes(held)


def test_an_index_does_not_hide_a_ledger_that_was_cut_short(long_study):
    path = long_study.folder.ledger
    lines = path.read_bytes().splitlines(keepends=True)
    for length in (1, 120, len(lines) - 1):
        path.write_bytes(b"".join(lines[:length]))
        assert not Ledger(long_study.folder).check().ok
        with pytest.raises(BrokenIntegrity):
            Ledger(long_study.folder).append("note.added", None, {"text": "later"}, SYSTEM)


def test_verify_looks_at_every_line_whatever_the_index_says(long_study, monkeypatch):
    seen = []
    real = module.ChainCheck._follow
    monkeypatch.setattr(
        module.ChainCheck, "_follow", lambda self, line: (seen.append(line), real(self, line))
    )
    ledger = Ledger(long_study.folder)
    assert ledger.check().ok and len(seen) < 60
    seen.clear()
    assert ledger.verify().ok and len(seen) == ledger.head.seq


def test_a_table_answers_as_the_records_it_was_made_of():
    luck = random.Random(4)

    def run(status):
        facts = {"candidate": luck.choice("abc"), "phase": "smoke", "seed": luck.randrange(3)}
        held = {"wall_clock_h": 0.5} if luck.random() < 0.5 else {}
        return RunState(status=status, reservation=held, intent_at="2026-11-01T09:00:00Z", **facts)

    records = {}
    table = RecordTable(RunState)
    for _ in range(30):
        newer = {f"r-{luck.randrange(40)}": run(luck.choice(list(RunStatus))) for _ in range(3)}
        records |= newer
        table = table.grown(newer)
        if luck.random() < 0.3:  # written down, and read again
            table = RecordTable(RunState, json.loads(json.dumps(table.as_columns())))
        assert dict(table) == records and list(table) == list(records)
        for name, seed in (("a", 1), ("c", 0), ("nobody", 2)):
            assert table.where(candidate=name, seed=seed) == [
                key for key, x in records.items() if (x.candidate, x.seed) == (name, seed)
            ]
        assert dict(table.values_of("status")) == {key: x.status for key, x in records.items()}
    assert StudyState(study="a/b", runs=records).as_data() == (
        StudyState(study="a/b", runs=table).as_data()
    )


def test_a_long_state_file_is_not_read_for_how_far_it_has_come(study):
    state = study.state
    rows = {
        f"e-{n}": EvidenceState(kind="metrics", hash="0" * 64, run=f"r-{n}", seq=n)
        for n in range(900)
    }
    save(
        study.folder, state.model_copy(update={"evidence": RecordTable(EvidenceState, None, rows)})
    )
    path = study.folder.state
    assert path.stat().st_size > 65_536 and committed_head(study.folder) == state.ledger_head
    save_next(study.folder, state, {"action": "wait"})
    assert StudyState.model_validate_json(path.read_bytes()).next_action == {"action": "wait"}
    path.write_text("{")
    assert committed_head(study.folder) is None
