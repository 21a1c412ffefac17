"""Jobs follow from the ledger: which runs are needed, and which may start now."""

import pytest

from telic.studies.candidates import revise_candidate, transition
from telic.studies.documents.base import RUNNER, SYSTEM
from telic.studies.errors import GateRefused
from telic.studies.queue import fresh_seeds, more_seeds
from telic.studies.rules.checks import validate_candidate
from tests.studies.candidates.small_study import (
    AGENT,
    change_contract,
    complete,
    end_run,
    make,
    measure,
    start_run,
)


def ready(study):
    return [job.name for job in study.jobs if job.status == "ready"]


@pytest.fixture
def study(based):
    return based


@pytest.fixture
def queued(study):
    name = make(study)
    assert not study.jobs, "a draft needs no runs"
    validate_candidate(study, name)
    return name


def test_places_and_gpus_are_limited(study):
    limits, gpus = {"limits": {"max_concurrent": 2}}, {"gpus": [4, 7]}
    change_contract(study, {"scope": limits, "hardware": gpus})
    name = make(study, plan={"est": {"gpu_h": 1.0}, "seeds": {"smoke": [1, 2, 3]}})
    validate_candidate(study, name)
    assert [job.gpu for job in study.jobs] == [4, 7, None]
    assert study.jobs[2].reason == "all 2 slots are in use"
    start_run(study, name, seed=1, gpu=4)
    change_contract(study, {"scope": {"limits": {"max_concurrent": 3}}, "hardware": {"gpus": [4]}})
    assert study.jobs[0].status == "running" and study.jobs[1].reason == "no GPU is free"


def test_losses_are_attempts_and_aborted_launches_are_none(study, queued):
    intent = {"run": "r-x", "candidate": queued, "phase": "smoke", "seed": 1, "nonce": "n"}
    study.append("launch.intent", queued, intent, RUNNER)
    study.append("launch.aborted", queued, {"run": "r-x", "reason": "crash"}, RUNNER)
    assert (study.jobs[0].run_id, study.jobs[0].attempts) == (None, 0)
    for _ in range(3):
        assert ready(study) == [f"{queued}/smoke/1"]
        end_run(study, start_run(study, queued), "lost")
    assert study.jobs[0].status == "failed"


def test_new_revision_starts_over_unless_a_run_is_live(study, queued):
    lost = start_run(study, queued)
    end_run(study, start_run(study, queued), "failed", why="it crashed")
    transition(study, queued, "debug", RUNNER, "it crashed")
    revise_candidate(study, queued, {"plan": {"est": {"gpu_h": 1}}}, AGENT)
    validate_candidate(study, queued)
    assert study.jobs[0].reason == "an earlier revision is running with this seed"
    end_run(study, lost, "lost")
    assert ready(study) == [f"{queued}/smoke/1"] and study.jobs[0].run_id is None


def test_more_seeds_come_fresh_from_the_pool(study, queued):
    measure(study, complete(study, queued)[0], 0.4)
    transition(study, queued, "validated", SYSTEM, "on", {"phase": "promotion"})
    complete(study, queued, "promotion", (100, 101, 102, 103, 104))
    assert more_seeds(study, queued, AGENT, "the interval is wide") == (105, 106, 107, 108, 109)
    assert study.planned_seeds(queued, "promotion") == frozenset(range(100, 110))
    assert study.state.candidates[queued].status == "validated" and len(ready(study)) == 1


def test_a_seed_that_an_amendment_took_away_never_starts(study, queued):
    change_contract(study, {"seeds": {"selection": "5-99", "promotion": "100-103"}})
    assert [job.status for job in study.jobs] == ["cancelled"]
    with pytest.raises(GateRefused, match="E_SEEDS"):
        fresh_seeds(study, "promotion", [queued], 5)
