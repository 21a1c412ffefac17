"""G01 to G06: somebody means it, the records are sound, and people agreed to it."""

from __future__ import annotations

import time

from telic.studies.approvals import experiment_standing, missing
from telic.studies.exploits import standing_exploit
from telic.studies.launch.request import TOKEN
from telic.studies.launch.situation import Situation
from telic.studies.ledger import Ledger
from telic.studies.projections import committed_head
from telic.studies.subjects import contract_hash
from telic.studies.validation.subject import Finding

# Without the lock, somebody else may be between a line and what follows from it.
_PATIENCE_S = (0.0, 0.02, 0.1, 0.3)


def is_meant(s: Situation) -> Finding:
    """G01: --execute and the exact token; a look without them is no launch."""
    request = s.request
    if not request.execute:
        return Finding(("this is a dry run",))
    return Finding(() if request.confirm == TOKEN else (f"the token is not {TOKEN}",))


def study_is_open(s: Situation) -> Finding:
    """G02: the registry resolves to one task and study, and the study is open."""
    problems: list[str] = []
    if s.registry.layout != "scoped":
        problems.append("a flat tree of the old layout can be read, not launched from")
    task = s.registry.task(s.folder.task_id)
    if task is None or task.study(s.folder.study_id) is None:
        problems.append(f"the registry knows no {s.folder.name}")
    if s.state.study_status != "open":
        problems.append(f"the study is {s.state.study_status}")
    return Finding(tuple(problems), value=s.folder.name)


def ledger_is_whole(s: Situation) -> Finding:
    """G03: the chain verifies, and state.json has seen its last line."""
    problem = ""
    for patience in _PATIENCE_S:
        time.sleep(patience)
        chain = s.ledger.verify()
        if not chain.ok:
            problem = f"line {chain.bad_seq} of the ledger is bad: {chain.why}"
        elif committed_head(s.folder) != chain.head:
            problem = "state.json is not what the ledger comes to"
        else:
            return Finding(value={"seq": chain.head.seq, "hash": chain.head.hash[:12]})
    if s.request.execute and _catch_up(s.ledger):
        return Finding(value={"seq": s.ledger.head.seq, "hash": s.ledger.head.hash[:12]})
    return Finding((problem,))


def _catch_up(ledger: Ledger) -> bool:
    """Say whether state.json has, or now gets, the last line of a ledger that verifies.

    With the lock held nobody is between a line and its projection: what lags was left by a crash,
    and is made again. A projection that saw a line which is gone fails the verification itself.
    """
    with ledger.locked():
        chain = ledger.verify()
        if chain.ok and committed_head(ledger.folder) != chain.head:
            ledger.rebuild()
        return chain.ok


def contract_is_agreed(s: Situation) -> Finding:
    """G04: the contract is valid, and is the one that the ledger has."""
    now = contract_hash(s.contract)
    if now != s.state.contract_hash:
        agreed = (s.state.contract_hash or "none")[:12]
        return Finding((f"contract.yaml ({now[:12]}) is not the agreed one ({agreed})",))
    return Finding(value=f"version {s.contract.version}")


def approvals_hold(s: Situation) -> Finding:
    """G05: every required approval is given, for what its subject says today."""
    unmet = missing(s.folder, s.state)
    return Finding(tuple(f"{each.name} is {each.status}: {each.why}" for each in unmet))


def experiment_is_approved(s: Situation) -> Finding:
    """G06: a person approved this candidate, or a class of candidates that it belongs to.

    What a reviewer calls an exploit needs a person's approval that came after the review.
    """
    if exploit := standing_exploit(s.ledger, s.request.candidate):
        return Finding((f"{exploit}; a person may approve it all the same",))
    found = experiment_standing(s.folder, s.state, s.candidate, s.request.phase)
    if found.status == "approved":
        return Finding(value=found.why or "approved by a person")
    return Finding((f"{s.request.candidate} is {found.status}: {found.why}",))
