"""From every state that a random life leads to, `next` names what is accepted, or a question."""

import random

import pytest

from telic.studies.contract import amend, hash_evaluator
from telic.studies.evidence.store import add_evidence
from telic.studies.next import remedy_for
from telic.studies.queue import plan_incumbent_check
from tests.studies.launch.toy_study import EVALUATOR
from tests.studies.walk import walking, world
from tests.studies.walk.moves import approve_all
from tests.studies.walk.person import AGENT, BETTER_EVALUATOR, HUMAN
from tests.studies.walk.walking import Walk, explore
from tests.studies.walk.world import World

BASELINE = "c-0001-baseline"


def test_a_study_does_not_get_stuck(tmp_path):
    found = explore(2, 20, 30_000, tmp_path / "home")
    assert not found.stuck and len(found.states) > 6


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """Run a study without random events."""
    for name in ("WHIM", "CRASHES"):
        monkeypatch.setattr(walking, name, 0.0)
    monkeypatch.setattr(World, "ODDS", (1, 0, 0, 0, 0, 0))
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    world.make_template(tmp_path)
    taken = Walk(World(tmp_path, random.Random(0)))
    world.enter(monkeypatch, taken.world)
    return taken


def run_until(walk, is_there, most=60):
    for _ in range(most):
        if is_there(walk.world.study.state):
            return
        assert walk.step()
    raise AssertionError("it did not get there:\n" + "\n".join(walk.story))


def call_risky(study, name):
    facts = {"hacking": {"level": "high"}}
    run = next(iter(study.state.runs_of(name)))
    add_evidence(study, "reflection", facts, AGENT, run=run, candidate=name)


def edit(study, name):
    path = study.folder.candidate_file(name)
    path.write_text(path.read_text().replace("due to chance", "due to skill"))


def with_status(status):
    return lambda state: any(x.status == status for x in state.candidates.values())


def change_evaluator(walk, *, is_agreed):
    (walk.world.root / "evaluate.py").write_text(BETTER_EVALUATOR)
    if is_agreed:
        hash_evaluator(walk.world.study)
        amend(walk.world.study, HUMAN, "another evaluator")
        approve_all(walk.world, walk.world.study)


def test_whatever_shuts_the_gates_of_an_incumbent_can_be_answered(walk):
    run_until(walk, lambda state: state.incumbent is not None)
    study = walk.world.study
    plan_incumbent_check(study, AGENT)

    call_risky(study, BASELINE)
    ready = next(job for job in study.jobs if job.status == "ready")
    job = ready.model_copy(update={"phase": "promotion"})  # beside somebody else
    assert remedy_for(study, job).action == "review"

    edit(study, BASELINE)
    run_until(walk, with_status("reverted"), most=8)


def test_an_edit_by_hand_does_not_spare_a_finished_candidate_its_review(walk):
    run_until(walk, with_status("completed"))
    call_risky(walk.world.study, BASELINE)
    edit(walk.world.study, BASELINE)
    run_until(walk, lambda state: any(x.kind == "review" for x in state.evidence.values()), most=12)
    assert walk.world.study.state.incumbent is None, "the review comes before the decision"
    assert any(line.startswith("next: review") for line in walk.story)


def test_changed_evaluator_is_a_question_before_a_draft_is_revised(walk):
    run_until(walk, with_status("draft"))
    change_evaluator(walk, is_agreed=False)
    run_until(walk, with_status("validated"), most=3)
    change_evaluator(walk, is_agreed=True)  # and the way back is asked about, too
    (walk.world.root / "evaluate.py").write_text(EVALUATOR)
    run_until(walk, lambda state: bool(state.runs), most=6)
    assert not any(line.startswith("next: revise") for line in walk.story)


@pytest.mark.long
def test_a_thousand_lives_do_not_get_stuck(tmp_path):
    found = explore(1000, 60, 0, tmp_path / "home")
    assert not found.stuck and len(found.states) > 1000
