"""Ledgers of any length, written at once as telic would have written them line by line."""

from collections.abc import Iterator

from telic.studies.canonical import canonical
from telic.studies.chain import LedgerHead, line_hash
from telic.studies.ledger import Ledger
from telic.studies.ledger_file import note_coming

Line = tuple[str, str | None, dict]


def notes(count: int) -> Iterator[Line]:
    """Yield notes."""
    for number in range(count):
        yield "note.added", None, {"text": f"note {number}", "request_key": None}


def life(count: int) -> Iterator[Line]:
    """Yield what a long study writes: of each candidate twenty runs, looked at and measured."""
    number = made = 0
    while made < count:  # the last one is told to its end, so that nothing is left to settle
        number += 1
        for line in _candidate(f"c-{number:04d}-idea", number):
            yield line
            made += 1


def _candidate(name: str, number: int) -> Iterator[Line]:
    sha = f"{number:064x}"
    yield "candidate.created", name, {"kind": "config", "revision": 1, "content_hash": sha}
    yield "candidate.validated", name, {"to": "validated", "phase": "promotion"}
    seeds = range(20)
    jobs = [
        {"job_id": f"{name}/1/promotion/{s}", "candidate": name, "phase": "promotion", "seed": s}
        for s in seeds
    ]
    yield "queue.planned", name, {"jobs": jobs}
    for seed in seeds:
        run = f"r-{number:06d}-{seed:02d}"
        about = {"run": run, "candidate": name, "phase": "promotion", "seed": seed}
        yield "launch.intent", name, {**about, "nonce": f"{number}-{seed}", "reservation": {}}
        yield "launch.started", name, {"run": run, "candidate": name, "to": "launched"}
        looked = {"run": run, "signature": "looked", "severity": "info", "cleared": []}
        yield "monitor.alert", run, looked
        yield "run.finished", run, {"run": run, "actual": {"wall_clock_h": 0.01}}
        sheet = f"e-{number:08x}{seed:04x}"
        facts = {"id": sheet, "kind": "metrics", "hash": sha, "run": run, "candidate": name}
        yield "evidence.added", sheet, facts
    yield "candidate.completed", name, {"to": "completed"}
    ruled = {"verdict": "reject", "to": "rejected", "decision": f"d-{number:04d}"}
    yield "decision.recorded", name, {**ruled, "phase": "promotion"}


def lengthen(ledger: Ledger, lines: Iterator[Line]) -> None:
    """Write many lines at once, as telic would have written them one by one."""
    head, text = ledger.head, []
    actor = {"kind": "agent", "name": "coder"}
    for type_, subject, data in lines:
        fields = {
            "seq": head.seq + 1,
            "at": "2026-11-01T09:00:00.000Z",
            "type": type_,
            "actor": actor,
            "study": ledger.folder.name,
            "subject": subject,
            "data": data,
            "prev": head.hash,
        }
        head = LedgerHead(seq=head.seq + 1, hash=line_hash(fields))
        text.append(canonical({**fields, "hash": head.hash}) + b"\n")
    with ledger.path.open("ab") as file:
        file.write(b"".join(text))
    note_coming(ledger.folder, head, None)
    ledger.rebuild()
