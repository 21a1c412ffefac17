"""The life of a candidate: all 81 pairs, all actors, and that a refusal changes nothing."""

import itertools

import pytest

from telic.studies import candidates
from telic.studies._ledger import Ledger
from telic.studies.documents.base import RUNNER, SYSTEM, ActorKind, StudyActor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.errors import GateRefused
from tests.studies.core.small import AGENT, ENGINE, HUMAN, add_candidate, begin, complete, content
from tests.studies.fresh import FreshStudy

NAME = "c-0001-try"
ACTORS: dict[ActorKind, StudyActor] = {
    "agent": AGENT,
    "human": HUMAN,
    "engine": ENGINE,
    "system": SYSTEM,
    "runner": RUNNER,
}
# Written down by hand from the description of the lifecycle, not from the table in the code.
ALLOWED = {
    ("draft", "validated"): {"system"},
    ("validated", "draft"): {"system"},
    ("draft", "rejected"): {"agent", "human"},
    ("validated", "rejected"): {"agent", "human"},
    ("validated", "launched"): {"runner"},
    ("launched", "completed"): {"runner"},
    ("launched", "debug"): {"runner", "system"},
    ("completed", "validated"): {"system"},
    ("completed", "accepted"): {"agent", "human", "system"},
    ("completed", "rejected"): {"agent", "human", "system"},
    ("completed", "inconclusive"): {"agent", "human", "system"},
    ("completed", "debug"): {"system"},
    ("inconclusive", "validated"): {"agent", "human"},
    ("debug", "draft"): {"agent", "engine"},
    ("debug", "rejected"): {"agent", "human", "system"},
    ("accepted", "reverted"): {"human", "system"},
}
STATUSES = [each.value for each in CandidateStatus]


@pytest.fixture
def in_status(kept):
    """Return a function that gives a study with a candidate in a status."""

    def lead(root, status):
        study = FreshStudy(complete(begin(root)).folder)
        add_candidate(study)
        for to in PATHS[status]:
            go(study, to)

    return lambda status: kept(f"in {status}", lambda root: lead(root, status))


PATHS = {
    "draft": [],
    "validated": ["validated"],
    "launched": ["validated", "launched"],
    "completed": ["validated", "launched", "completed"],
    "accepted": ["validated", "launched", "completed", "accepted"],
    "rejected": ["rejected"],
    "inconclusive": ["validated", "launched", "completed", "inconclusive"],
    "debug": ["validated", "launched", "debug"],
    "reverted": ["validated", "launched", "completed", "accepted", "reverted"],
}


def go(study, to, actor=None):
    """Take a step as the first actor who may."""
    status = study.state.candidates[NAME].status
    allowed = ALLOWED.get((status.value, to), {"human"})
    actor = actor or ACTORS[sorted(allowed)[0]]
    data = {"run": "r-1", "phase": "promotion", "revision": 2}
    return candidates.transition(study, NAME, to, actor, "because", data)


@pytest.mark.parametrize("status", STATUSES)
def test_what_is_not_allowed_is_refused_without_a_trace(in_status, status):
    study = in_status(status)
    before = content(study.root)
    for to, (kind, actor) in itertools.product(STATUSES, ACTORS.items()):
        if kind not in ALLOWED.get((status, to), ()):
            with pytest.raises(GateRefused) as error:
                go(study, to, actor)
            assert error.value.code == "E_TRANSITION"
    assert content(study.root) == before


@pytest.mark.parametrize("pair", sorted(ALLOWED), ids="-".join)
def test_what_is_allowed_moves_the_candidate(in_status, pair):
    study = in_status(pair[0])
    assert go(study, pair[1]).data["from"] == pair[0]
    assert study.state.candidates[NAME].status == pair[1]


def test_a_paused_study_takes_no_candidates_and_a_runner_proposes_none(agreed):
    with pytest.raises(GateRefused, match="runner may not"):
        candidates.new_candidate(agreed, "other", {"kind": "baseline"}, RUNNER)
    Ledger(agreed.folder).append("study.status", None, {"status": "paused"}, HUMAN)
    with pytest.raises(GateRefused, match="paused"):
        candidates.new_candidate(agreed, "other", {"kind": "baseline"}, AGENT)
