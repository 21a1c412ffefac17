"""A model as the author: criteria first, then two authors who do not see one another."""

import pytest

from telic.authors.answers import Look
from telic.authors.author import Brief
from telic.authors.cast import Cast
from telic.authors.model import Flaw, ModelAuthor, decide
from telic.authors.scene import scene, table
from telic.envs import make
from telic.errors import RewardError
from telic.judges.validation import ExampleResult, Trial
from telic.llm import Models, Scripted
from telic.storage.layout import SessionFolder
from tests.authors.scripts import JUDGE, REVISION, REWARD, SCRIPT
from tests.session.sessions import asked
from tests.training.small import SPEED


@pytest.fixture(scope="module")
def spec():
    return make("HalfCheetah-v5", num_envs=1).spec


@pytest.fixture
def author(spec, tmp_path):
    def ask(scripted):
        brief = Brief(asked(intent="run"), spec, SessionFolder(tmp_path / "session"))
        return ModelAuthor(Cast(Models(scripted, tmp_path)), brief)

    return ask


@pytest.fixture
def deciding(spec, tmp_path):
    """Let a script revise, from iteration 1."""

    def revise(scripted, show=lambda look: "", flaw=lambda revision: None, name="session"):
        values = {**scene("run", spec), "story": "STORY"}
        return decide(Cast(Models(scripted, tmp_path / name)), values, show, [1], flaw)

    return revise


def test_an_intent_becomes_criteria_reward_and_judge(author):
    scripted = Scripted(SCRIPT)
    writer = author(scripted)
    written = writer.write(writer.read())
    assert written.reward == SPEED and written.judge == JUDGE and written.steps == 10_000
    by_role = {each.role: each.prompt for each in scripted.requests}
    assert "forward_velocity" in by_role["elicitor"] and "lies on its back" in by_role["elicitor"]
    assert "full credit at 1 s" in by_role["reward_author"]
    assert "ends_early" not in by_role["reward_author"]  # the judge is hidden from it
    assert "class Speed" not in by_role["judge_author"]


def test_a_file_that_is_refused_goes_back_with_the_reason(author):
    bad = {**REWARD, "source": "import os\n" + SPEED}
    scripted = Scripted({**SCRIPT, "reward_author": [bad, REWARD]})
    writer = author(scripted)
    assert writer.write(writer.read()).reward == SPEED
    prompts = [each.prompt for each in scripted.requests if each.role == "reward_author"]
    assert "was refused" in prompts[1] and "os" in prompts[1]


def test_what_the_examples_show_counts_whatever_the_reviewer_says(author):
    trial = Trial(
        examples=(
            ExampleResult(name="shakes", is_good=False, score=0.1, pay=9.0, terms={"speed": 9.0}),
            ExampleResult(
                name="good example", is_good=True, score=None, reason="no steps", pay=3.0
            ),
        ),
        reward_problems=("pays for shaking",),
    )
    found = {"reasoning": "fine", "judge_problems": ["leaf x"]}
    scripted = Scripted({**SCRIPT, "reviewer": found})
    writer = author(scripted)
    written = writer.write(writer.read())
    del scripted.requests[:]
    assert writer.review(written, trial) == written
    prompts = {each.role: each.prompt for each in scripted.requests}
    assert "| shakes | 0.1 | 9 | speed 9 |" in prompts["reviewer"]
    assert "unknown" in prompts["reviewer"]
    assert SPEED in prompts["reviewer"] and JUDGE in prompts["reviewer"]
    assert "- pays for shaking" in prompts["reward_author"]
    assert "- leaf x" in prompts["judge_author"]


def test_a_reviser_looks_before_it_decides(deciding):
    script = [{"look": {"at": "curves", "iteration": 1}}, {"revision": REVISION}]
    scripted = Scripted({"reviser": script})
    looks = []

    def show(look: Look) -> str:
        looks.append(look)
        return "FLAT CURVES"

    made = deciding(scripted, show)
    assert made.change == "faster" and [each.at for each in looks] == ["curves"]
    assert "FLAT CURVES" not in scripted.requests[0].prompt
    assert "FLAT CURVES" in scripted.requests[1].prompt and "STORY" in scripted.requests[1].prompt


def test_a_revision_of_nothing_or_of_refused_code_goes_back(deciding):
    wrong = [
        {"revision": {**REVISION, "based_on": 7}},
        {"revision": {**REVISION, "source": "import socket\n"}},
        {"revision": REVISION},
    ]
    scripted = Scripted({"reviser": wrong})
    made = deciding(scripted)
    assert made.based_on == 1
    assert "Iteration 7 does not exist" in scripted.requests[1].prompt
    assert "socket" in scripted.requests[2].prompt


def test_a_doubt_goes_back_as_long_as_tries_are_left_and_a_fault_always(deciding):
    def tried(name, flaw):
        scripted = Scripted({"reviser": {"revision": REVISION}})
        return scripted, lambda: deciding(scripted, flaw=lambda _: flaw, name=name)

    scripted, doubted = tried("doubted", Flaw("it pays for shaking", is_fatal=False))
    assert doubted().change == "faster" and len(scripted.requests) == 3
    assert "it pays for shaking" in scripted.requests[1].prompt
    _, faulty = tried("faulty", Flaw("it divides by zero"))
    with pytest.raises(RewardError, match="it divides by zero"):
        faulty()


def test_a_reviser_who_only_looks_is_told_to_decide_and_then_given_up(deciding):
    scripted = Scripted({"reviser": [{"look": {"at": "code"}}] * 12})
    with pytest.raises(RewardError, match="No looks are left"):
        deciding(scripted, lambda look: "x")
    assert "Decide now" in scripted.requests[-1].prompt


@pytest.mark.parametrize(
    ("is_good", "score", "words"),
    [
        (False, 0.787, "fails narrowly (0.013)"),
        (False, 0.8, "which passes"),
        (False, 0.3, "| 0.3 |"),
        (True, 0.787, "which would not pass: 0.013 too little"),
        (True, 0.81, "passes narrowly (0.010)"),
        (True, 1.0, "| 1 |"),
    ],
)
def test_an_example_just_beside_the_threshold_is_said_to_be(is_good, score, words):
    trial = Trial(examples=(ExampleResult(name="it", is_good=is_good, score=score, pay=1.0),))
    told = table(trial, 0.8)
    assert "A score of 0.8 passes." in told and words in told
    assert "hair" not in table(trial)
