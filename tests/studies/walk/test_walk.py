"""From every state that a random life leads to, `next` names what is accepted, or a question.

The long walk: python -m tests.studies.walk.walking LIVES SEEDS FOLDER
"""

import random

import pytest

from telic.studies.evidence.store import add_evidence
from telic.studies.schedule import plan_incumbent_check
from tests.studies.launch.toy_study import EVALUATOR
from tests.studies.walk import walking, world
from tests.studies.walk.person import AGENT
from tests.studies.walk.walking import Walk, explore
from tests.studies.walk.world import World


def test_a_study_does_not_get_stuck(tmp_path):
    found = explore(12, 30_000, tmp_path / "home")
    assert not found.stuck and len(found.states) > 5


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """Live a life in which nothing happens that nobody asked for."""
    for name in ("WHIM", "CRASHES"):
        monkeypatch.setattr(walking, name, 0.0)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    world.make_template(tmp_path)
    taken = Walk(World(tmp_path, random.Random(0)))
    world.enter(monkeypatch, taken.world)
    return taken


def go_on(walk, is_there, most=60):
    for _ in range(most):
        if is_there(walk.world.study.state):
            return
        assert walk.step()
    raise AssertionError("it did not get there:\n" + "\n".join(walk.story))


def test_an_incumbent_under_another_evaluator_is_a_question(walk):
    go_on(walk, lambda state: state.incumbent is not None)
    plan_incumbent_check(walk.world.study, AGENT)
    (walk.world.root / "evaluate.py").write_text(EVALUATOR + "# better\n")
    before = len(walk.world.study.state.runs)
    go_on(walk, lambda state: len(state.runs) > before, most=6)
    assert any(line.startswith("next: ask") for line in walk.story)


def test_a_risky_candidate_that_was_edited_by_hand_is_not_reviewed_for_ever(walk):
    go_on(
        walk, lambda state: any(run.candidate != "c-0001-baseline" for run in state.runs.values())
    )
    study = walk.world.study
    name, run = next((r.candidate, n) for n, r in study.state.runs.items() if "idea" in r.candidate)
    facts = {"hacking": {"level": "high"}}
    add_evidence(study, "reflection", facts, AGENT, run=run, candidate=name)
    path = study.folder.candidate_file(name)
    path.write_text(path.read_text().replace('"reward.weight"', '"reward.width"'))
    for _ in range(12):  # raises where one of them leads nowhere
        walk.step()


@pytest.mark.long
def test_ten_thousand_lives_do_not_get_stuck(tmp_path):
    found = explore(10_000, 0, tmp_path / "home")
    print(found.summary())
    assert not found.stuck and len(found.states) > 3000
    assert len(found.sequences) > 9000
