"""The life of a candidate: all 81 pairs, who may do what, and that a refusal changes nothing."""

import itertools

import pytest

from telic.studies import lifecycle
from telic.studies.documents.base import RUNNER, SYSTEM, ActorKind, StudyActor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.errors import GateRefused, StudyError
from telic.studies.ledger import Ledger
from tests.studies.core.small import AGENT, ENGINE, HUMAN, add_candidate, content

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
    ("completed", "accepted"): {"human"},
    ("completed", "rejected"): {"agent", "human", "system"},
    ("completed", "inconclusive"): {"agent", "human", "system"},
    ("completed", "debug"): {"system"},
    ("inconclusive", "validated"): {"agent", "human"},
    ("debug", "draft"): {"agent", "engine"},
    ("debug", "rejected"): {"human"},
    ("accepted", "reverted"): {"human"},
}
STATUSES = [each.value for each in CandidateStatus]


@pytest.fixture
def in_status(made_once, agreed):
    """Return a function that leads a candidate into a status along allowed steps."""

    def lead(status):
        add_candidate(agreed)
        for to in PATHS[status]:
            go(agreed, to)
        return agreed

    return lambda status: made_once(f"in {status}", lambda: lead(status))


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


def evidence(study, status, to):
    """What a step needs, so that only the table can refuse it."""
    state = Ledger(study.folder).state()
    held = state.candidates[NAME]
    verdicts = {"accepted": "valid_improvement", "debug": "invalid", "rejected": "no_improvement"}
    return {
        "checks": [{"id": "V01", "passed": True}],
        "content_hash": held.content_hash,
        "contract_hash": state.contract_hash,
        "changed": ["contract"],
        "run": next(iter(state.runs), None),
        "nonce": "n1",
        "phase": "promotion",
        "seeds": [101],
        "audit": "a-1",
        "audit_verdict": verdicts.get(to),
        "revision": held.revision + 1,
        "incumbent": {"candidate": "c-0000-base"},
    }


def go(study, to, actor=None):
    """Take a step as the first actor who may, with all it needs."""
    status = Ledger(study.folder).state().candidates[NAME].status
    allowed = ALLOWED.get((status.value, to), {"human"})
    actor = actor or ACTORS[sorted(allowed)[0]]
    intend(study)
    before_end(study, to)
    return lifecycle.transition(study, NAME, to, actor, "because", evidence(study, status, to))


def intend(study):
    """Announce a launch, as the runner does before it starts anything."""
    if not Ledger(study.folder).state().runs:
        data = {"run": "r-1", "candidate": NAME, "phase": "promotion", "seed": 1, "nonce": "n1"}
        Ledger(study.folder).append("launch.intent", NAME, data, RUNNER)


def before_end(study, to):
    runs = Ledger(study.folder).state().runs
    if to == "completed" and runs["r-1"].is_live:
        Ledger(study.folder).append("run.finished", "r-1", {"actual": {}}, RUNNER)


@pytest.mark.parametrize(("status", "to"), list(itertools.product(STATUSES, STATUSES)))
def test_every_pair_is_allowed_or_refused_without_a_trace(in_status, status, to):
    study = in_status(status)
    intend(study)
    before_end(study, to)
    if (status, to) in ALLOWED:
        event = go(study, to)
        assert event.data["from"] == status
        assert Ledger(study.folder).state().candidates[NAME].status == to
        return
    before = content(study.root)
    for actor in ACTORS.values():
        with pytest.raises(GateRefused) as error:
            lifecycle.transition(study, NAME, to, actor, "because", evidence(study, status, to))
        assert error.value.code == "E_TRANSITION"
    assert content(study.root) == before


def test_the_table_is_the_written_one():
    assert {(a.value, b.value) for a, b in lifecycle.TRANSITIONS} == set(ALLOWED)


@pytest.mark.parametrize("pair", sorted(ALLOWED), ids="-".join)
def test_only_the_named_actors_may(in_status, pair):
    status, to = pair
    study = in_status(status)
    intend(study)
    before_end(study, to)
    before = content(study.root)
    for kind in set(ACTORS) - ALLOWED[pair]:
        with pytest.raises(GateRefused, match="E_TRANSITION"):
            brought = evidence(study, status, to)
            lifecycle.transition(study, NAME, to, ACTORS[kind], "because", brought)
    assert content(study.root) == before


@pytest.mark.parametrize(
    ("status", "to", "actor", "reason", "change", "why"),
    [
        ("draft", "validated", SYSTEM, "", {"checks": [{"id": "V01", "passed": False}]}, "checks"),
        ("draft", "validated", SYSTEM, "", {"contract_hash": "0" * 64}, "another contract"),
        ("validated", "draft", SYSTEM, "", {"changed": []}, "has changed"),
        ("draft", "rejected", HUMAN, "", {}, "reason"),
        ("draft", "rejected", StudyActor(kind="agent", name="other"), "no", {}, "belongs to"),
        ("validated", "launched", RUNNER, "", {"nonce": "stolen"}, "announced by another"),
        ("validated", "launched", RUNNER, "", {"run": "r-9"}, "announced"),
        ("launched", "debug", SYSTEM, "", {}, "reason"),
        ("completed", "validated", SYSTEM, "", {"phase": "smoke"}, "comes before"),
        ("completed", "validated", SYSTEM, "", {"seeds": []}, "no more seeds"),
        ("completed", "accepted", HUMAN, "", {"audit": None}, "no audit"),
        ("completed", "accepted", HUMAN, "", {"audit_verdict": "provisional"}, "provisional"),
        ("completed", "rejected", HUMAN, "", {"audit_verdict": None}, "speaks against"),
        ("completed", "debug", SYSTEM, "", {"audit_verdict": "inconclusive"}, "invalid"),
        ("inconclusive", "validated", AGENT, "", {"content_hash": "0" * 64}, "has changed"),
        ("debug", "draft", AGENT, "", {"revision": 1}, "new revision"),
        ("accepted", "reverted", HUMAN, "", {"incumbent": None}, "not named"),
    ],
)
def test_what_must_hold_before_a_step(in_status, status, to, actor, reason, change, why):
    study = in_status(status)
    intend(study)
    before = content(study.root)
    brought = {**evidence(study, status, to), **change}
    with pytest.raises(GateRefused, match=why):
        lifecycle.transition(study, NAME, to, actor, reason, brought)
    assert content(study.root) == before


def test_a_candidate_is_not_completed_while_a_run_of_it_lives(in_status):
    study = in_status("launched")
    with pytest.raises(GateRefused, match="r-1 still runs"):
        lifecycle.transition(study, NAME, "completed", RUNNER)


def test_mending_ends_after_the_attempts_the_contract_allows(in_status):
    study = in_status("debug")
    for attempt in range(3):
        go(study, "draft", AGENT)
        state = Ledger(study.folder).state().candidates[NAME]
        assert (state.debug_attempts, state.revision) == (attempt + 1, attempt + 2)
        go(study, "validated")
        nonce = f"n{attempt + 2}"
        run = f"r-{attempt + 2}"
        data = {"run": run, "candidate": NAME, "phase": "smoke", "seed": 1, "nonce": nonce}
        Ledger(study.folder).append("launch.intent", NAME, data, RUNNER)
        lifecycle.transition(study, NAME, "launched", RUNNER, "", {"run": run, "nonce": nonce})
        lifecycle.transition(study, NAME, "debug", SYSTEM, "crashed")
    with pytest.raises(GateRefused, match="3 attempts"):
        go(study, "draft", AGENT)
    lifecycle.transition(study, NAME, "rejected", SYSTEM, "attempts used up")


def test_an_id_is_never_used_twice_and_a_paused_study_takes_no_candidates(agreed):
    add_candidate(agreed)
    with pytest.raises(GateRefused, match="used before"):
        lifecycle.create(agreed, NAME, AGENT, {"kind": "config"})
    Ledger(agreed.folder).append("study.status", None, {"status": "paused"}, HUMAN)
    with pytest.raises(GateRefused, match="paused"):
        lifecycle.create(agreed, "c-0002-other", AGENT, {"kind": "config"})
    with pytest.raises(GateRefused, match="runner may not"):
        lifecycle.create(agreed, "c-0002-other", RUNNER, {"kind": "config"})


def test_a_candidate_that_does_not_exist_is_named(agreed):
    with pytest.raises(StudyError, match="c-0009-none"):
        lifecycle.transition(agreed, "c-0009-none", "validated", SYSTEM)


def test_an_agent_accepts_only_where_the_contract_lets_it(in_status):
    study = in_status("completed")
    text = study.folder.contract.read_text().replace("decide: ask", "decide: auto")
    study.folder.contract.write_text(text)
    from telic.studies.contract import amend

    amend(study, HUMAN, "let it decide")
    assert go(study, "accepted", AGENT).kind == "decision.recorded"
