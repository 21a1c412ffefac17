import pytest

from telic.errors import UnknownName
from telic.storage.journal import JournalHead
from telic.studies.documents.base import RUNNER, SYSTEM
from telic.studies.documents.candidate import Job, QueuePolicy
from telic.studies.errors import GateRefused
from telic.studies.lifecycle import transition
from telic.studies.queue import (
    JobQueue,
    advance,
    fresh_seeds,
    more_seeds,
    plan_batch,
    plan_candidate,
    queue_step,
    reorder,
    step,
)
from telic.studies.rules.checks import validate_candidate
from telic.studies.state import CandidateState, RunState, StudyState
from tests.studies.candidates.small_study import (
    AGENT,
    change_contract,
    complete,
    end_run,
    make,
    measure,
    start_run,
)

NOW = "2026-08-01T12:00:00Z"


def job(name, phase="smoke", seed=1, **facts):
    return Job(job_id=f"{name}-{phase}-{seed}", candidate=name, phase=phase, seed=seed, **facts)


def state(**candidates):
    held = {
        name: CandidateState(status=status, phase=phase, author="agent:x", since_seq=1)
        for name, (status, phase) in candidates.items()
    }
    head = JournalHead(seq=0, hash="0" * 64)
    return StudyState(study="walk/first", ledger_head=head, candidates=held)


def queue(*jobs, **policy):
    return JobQueue(study="walk/first", policy=QueuePolicy(**policy), jobs=jobs)


def ready(found):
    return [each.job.job_id for each in found.ready]


# ------------------------------------------------------------------ the pure step


def test_a_step_is_pure(study):
    manifest, now = queue(job("a")), state(a=("validated", "smoke"))
    before = manifest.model_dump(), now.model_dump()
    assert step(manifest, now) == step(manifest, now)
    assert (manifest.model_dump(), now.model_dump()) == before


@pytest.mark.parametrize(
    ("status", "phase", "why"),
    [
        ("validated", "smoke", None),
        ("launched", "smoke", None),
        ("validated", "promotion", "is in phase promotion"),
        ("draft", None, "a is draft"),
        ("completed", "smoke", "a is completed"),
        ("accepted", "promotion", "only runs in promotion"),
    ],
)
def test_a_job_waits_for_its_candidate(status, phase, why):
    found = step(queue(job("a")), state(a=(status, phase)))
    assert bool(found.ready) is (why is None)
    assert why is None or why in found.waiting[0].why


def test_an_accepted_candidate_runs_as_control_arm():
    found = step(queue(job("a", "promotion", 100)), state(a=("accepted", "smoke")))
    assert ready(found) == ["a-promotion-100"]


def test_a_job_waits_for_what_it_depends_on():
    jobs = [job("a", seed=1), job("a", seed=2, depends_on=("a-smoke-1",))]
    found = step(queue(*jobs, max_parallel=5), state(a=("validated", "smoke")))
    assert ready(found) == ["a-smoke-1"] and found.waiting[0].why == "a-smoke-1 is waiting"


def test_places_and_gpus_are_limited():
    jobs, now = [job("a", seed=n) for n in (1, 2, 3)], state(a=("validated", "smoke"))
    found = step(queue(*jobs, max_parallel=2, gpus=(4, 7)), now)
    assert [each.job.slot.gpu for each in found.ready] == [4, 7]
    assert found.waiting[0].why == "all 2 places are taken"
    found = step(queue(*jobs, max_parallel=3, gpus=(4,)), now)
    assert found.waiting[0].why == "no GPU is free"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", ["a-promotion-100", "b-smoke-1", "c-smoke-1"]),
        ("priority", ["c-smoke-1", "a-promotion-100", "b-smoke-1"]),
        ("successive_halving", ["c-smoke-1", "b-smoke-1", "a-promotion-100"]),
    ],
)
def test_the_order_is_the_policys(order, expected):
    jobs = [job("a", "promotion", 100), job("b"), job("c", priority=5)]
    smoke = ("validated", "smoke")
    now = state(a=("validated", "promotion"), b=smoke, c=smoke)
    assert ready(step(queue(*jobs, order=order, max_parallel=9), now)) == expected


def test_nothing_is_ready_in_a_paused_study():
    now = state(a=("validated", "smoke")).model_copy(update={"study_status": "paused"})
    assert step(queue(job("a")), now).waiting[0].why == "the study is paused"


def test_a_live_run_outside_the_queue_is_not_doubled():
    run = RunState(
        status="running", candidate="a", phase="smoke", seed=1, reservation={}, intent_at=NOW
    )
    now = state(a=("launched", "smoke")).model_copy(update={"runs": {"r-1": run}})
    assert step(queue(job("a")), now).waiting[0].why == "this seed is already running"


# ------------------------------------------------------------------ the queue of a study


@pytest.fixture
def queued(study):
    name = make(study)
    validate_candidate(study, name)
    plan_candidate(study, name, AGENT)
    return name


def test_only_a_validated_candidate_is_queued(study):
    with pytest.raises(GateRefused, match="E_QUEUE"):
        plan_candidate(study, make(study), AGENT)


def test_planning_twice_plans_once(study, queued):
    seq = study.ledger.head.seq
    plan_candidate(study, queued, AGENT)
    assert study.ledger.head.seq == seq
    jobs = study.queue.jobs
    assert [each.job_id for each in jobs][:2] == [
        f"{queued}/1/smoke/1",
        f"{queued}/1/short_trial/1",
    ]
    assert len(jobs) == 7
    assert jobs[1].depends_on == (f"{queued}/1/smoke/1",), "every phase waits for the one before"


def test_looking_at_the_queue_writes_nothing(study, queued):
    before = {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}
    assert ready(queue_step(study)) == [f"{queued}/1/smoke/1"]
    assert before == {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}


def test_jobs_follow_their_runs(study, queued):
    run = start_run(study, queued)
    assert queue_step(study).running == (f"{queued}/1/smoke/1",)
    end_run(study, run, "killed", by="preempted")
    again = queue_step(study).ready[0]
    assert (again.retry_of, again.job.attempts) == (run, 1)
    run = start_run(study, queued)
    end_run(study, run, "failed", why="it crashed")
    failed = study.queue.jobs[0]
    assert (failed.status, failed.run_id, failed.attempts) == ("failed", run, 2)


def test_a_run_that_was_lost_three_times_has_failed(study, queued):
    for _ in range(3):
        assert queue_step(study).ready
        end_run(study, start_run(study, queued), "lost")
    assert study.queue.jobs[0].status == "failed"


def test_an_aborted_launch_was_no_attempt(study, queued):
    study.append(
        "launch.intent",
        queued,
        {"run": "r-x", "candidate": queued, "phase": "smoke", "seed": 1, "nonce": "n"},
        RUNNER,
    )
    study.append("launch.aborted", queued, {"run": "r-x", "reason": "crash"}, RUNNER)
    found = queue_step(study).ready[0]
    assert (found.retry_of, found.job.attempts) == (None, 0)


def test_a_new_revision_starts_over(study, queued):
    from telic.studies.candidates import revise_candidate

    end_run(study, start_run(study, queued), "failed", why="it crashed")
    transition(study, queued, "debug", RUNNER, "it crashed")
    revise_candidate(study, queued, {"plan": {"est": {"gpu_h": 1}}}, AGENT)
    validate_candidate(study, queued)
    plan_candidate(study, queued, AGENT)
    statuses = {each.job_id: each.status for each in study.queue.jobs}
    assert statuses[f"{queued}/1/smoke/1"] == "cancelled"
    assert ready(queue_step(study)) == [f"{queued}/2/smoke/1"]


def test_a_phase_is_passed_when_its_rule_holds(study, queued):
    (run,) = complete(study, queued)
    assert advance(study)[0].verdict == "wait"  # nobody measured it
    measure(study, run, 0.4)
    (said,) = advance(study)
    assert (said.to, study.state.candidates[queued].phase) == ("short_trial", "short_trial")
    assert ready(queue_step(study)) == [f"{queued}/1/short_trial/1"]


def test_of_a_batch_one_in_three_goes_on(study):
    names = []
    for title, weight in (("a", 1.5), ("b", 1.6), ("c", 1.7)):
        change = {"overrides": {"reward.weight": {"from": 1.0, "to": weight}}}
        names.append(make(study, title * 3, change=change, plan={"est": {"gpu_h": 1}}))
        validate_candidate(study, names[-1])
    batch = plan_batch(study, "weights", "find the weight", names, AGENT)
    assert [each.id for each in batch.candidates] == names
    for name, score in zip(names, (0.2, 0.9, 0.5), strict=True):
        measure(study, complete(study, name)[0], score)
    assert {each.to for each in advance(study)} == {"short_trial"}
    for name, score in list(zip(names, (0.2, 0.9, 0.5), strict=True))[:2]:
        measure(study, complete(study, name, "short_trial")[0], score)
    assert {each.verdict for each in advance(study)} == {"wait"}
    measure(study, complete(study, names[2], "short_trial")[0], 0.5)
    said = {each.candidate: each.verdict for each in advance(study)}
    assert said == {names[0]: "hold", names[1]: "advance", names[2]: "hold"}


def test_more_seeds_come_fresh_from_the_pool(study, queued):
    measure(study, complete(study, queued)[0], 0.4)
    transition(study, queued, "validated", SYSTEM, "on", {"phase": "promotion"})
    complete(study, queued, "promotion", (100, 101, 102, 103, 104))
    jobs = more_seeds(study, queued, AGENT, "the interval is wide")
    assert [each.seed for each in jobs] == [105, 106, 107, 108, 109]
    own = study.candidate(queued)
    assert study.planned_seeds(own.id, "promotion") == frozenset(range(100, 110))
    assert study.state.candidates[queued].status == "validated"
    assert len(ready(queue_step(study))) == 1


def test_a_pool_can_run_dry(study, queued):
    change_contract(study, {"seeds": {"promotion": "100-103"}})
    with pytest.raises(GateRefused, match="E_SEEDS"):
        fresh_seeds(study, "promotion", [queued], 5)


def test_the_order_can_be_changed(study, queued):
    change = {"overrides": {"reward.weight": {"from": 1.0, "to": 1.5}}}
    other = make(study, "urgent", change=change)
    validate_candidate(study, other)
    plan_candidate(study, other, AGENT)
    assert ready(queue_step(study)) == [f"{queued}/1/smoke/1"]
    reorder(study, AGENT, order="priority", priorities={other: 3})
    assert ready(queue_step(study)) == [f"{other}/1/smoke/1"]
    with pytest.raises(UnknownName, match="nobody"):
        reorder(study, AGENT, priorities={"nobody": 1})
