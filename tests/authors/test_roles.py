"""A model as the author: two authors who do not see one another, objections that persist."""

import itertools
from types import SimpleNamespace

import pytest

from telic.authors import _model
from telic.authors._cast import RoleModels
from telic.authors._model import ModelAuthor
from telic.authors.author import Brief
from telic.authors.candidate import RewardCandidate
from telic.envs import make
from telic.judges.validation import ExampleResult, JudgeValidation
from telic.llm import Models
from telic.storage.files import write_json
from telic.storage.layout import SessionFolder
from telic.testing.models import Scripted
from tests.authors.scripts import JUDGE, REVISION, REWARD, SCRIPT
from tests.session.sessions import asked
from tests.session.test_report import iteration, score
from tests.training.small import SPEED

OBJECTIONS = ["lasts counts falling", "lasts has no goal", "lasts has the wrong unit"]
SOUND = JudgeValidation(examples=())


@pytest.fixture(scope="module")
def spec():
    return make("HalfCheetah-v5", num_envs=1).spec


@pytest.fixture
def author(spec, tmp_path):
    def ask(scripted):
        brief = Brief(asked(intent="run"), spec, SessionFolder(tmp_path / "session"))
        return ModelAuthor(RoleModels(Models(scripted, tmp_path)), brief)

    return ask


def prompts(scripted, role):
    return [each.prompt for each in scripted.requests if each.role == role]


def another_judge(number):
    return {
        "reasoning": f"fixed {number}",
        "source": JUDGE.replace("zero=0.0", f"zero=0.0{number}"),
    }


def test_an_intent_becomes_criteria_reward_and_judge(author):
    scripted = Scripted(SCRIPT)
    writer = author(scripted)
    written = writer.write(writer.read())
    assert written.reward == SPEED and written.judge == JUDGE and written.steps == 10_000
    by_role = {each.role: each.prompt for each in scripted.requests}
    assert "lies on its back" in by_role["elicitor"]
    assert "full at 1 s" in by_role["reward_author"]
    assert "ends_early" not in by_role["reward_author"]  # the judge is hidden from it
    assert "class Speed" not in by_role["judge_author"]


def test_criteria_that_pass_a_failure_mode_go_back_before_a_reward_is_written(author):
    low = {"title": "low", "quantity": "height", "measure": "mean(height)", "direction": "at_most"}
    turns = {"title": "level", "quantity": "turns", "measure": "highest(abs(pitch_turns))"}
    turns |= {"direction": "at_most", "zero": 1.5, "goal": 1.0, "is_guard": True, "weight": 0}
    lies, lowers = ({**low, "zero": 0.9, "goal": goal} for goal in (0.8, -0.5))
    answers = [
        {**SCRIPT["elicitor"], "criteria": [each, turns], "fine": [], "demonstration": []}
        for each in (lies, lowers)
    ]
    scripted = Scripted({**SCRIPT, "elicitor": answers})
    (taken, _) = author(scripted).read().criteria
    first, second = prompts(scripted, "elicitor")
    assert taken.goal == -0.5 and "not accepted" not in first
    assert "passes failure modes" in second and '"lies on its back"' in second
    assert '"goal":0.8' in second  # its own answer, to be corrected
    assert not prompts(scripted, "reward_author")


def test_a_model_cannot_leave_out_the_terrain_that_the_prompt_states(author, monkeypatch):
    """No criterion measures rough ground, so any author could replace it by flat ground."""
    stated = {"terrain": "rough", "terrain_start": "top", "terrain_hardest": 0.7}
    read = SimpleNamespace(env_args={**stated, "max_episode_steps": 400})
    monkeypatch.setattr(_model, "able_reading", lambda *_: (read, {}))
    monkeypatch.setattr(_model, "not_judged", lambda *_: ())
    writer = author(Scripted(SCRIPT))
    writer.read()
    assert writer._env_args(writer._elicited).items() >= stated.items()


def test_a_file_that_is_refused_goes_back_with_the_reason(author):
    bad = {**REWARD, "source": "import os\n" + SPEED}
    scripted = Scripted({**SCRIPT, "reward_author": [bad, REWARD]})
    writer = author(scripted)
    assert writer.write(writer.read()).reward == SPEED
    second = prompts(scripted, "reward_author")[1]
    assert "was not accepted" in second and "os" in second


def test_what_the_examples_show_counts_whatever_the_reviewer_says(author):
    trial = JudgeValidation(
        examples=(
            ExampleResult(name="shakes", is_good=False, score=0.1, pay=9.0, terms={"speed": 9.0}),
            ExampleResult(name="good example", is_good=True, score=None, reason="?", pay=3.0),
        ),
        reward_problems=("pays for shaking",),
    )
    faster = {**REWARD, "source": SPEED.replace("1.0", "2.0")}
    scripted = Scripted({**SCRIPT, "reward_author": [REWARD, faster]})
    writer = author(scripted)
    written = writer.write(writer.read())
    assert writer.review(written, trial).reward == faster["source"]
    (shown,) = prompts(scripted, "reviewer")
    assert "| shakes | 0.1 | 9 | 9 |" in shown and "unknown" in shown
    assert SPEED in shown and JUDGE in shown
    assert "- pays for shaking" in prompts(scripted, "reward_author")[1]


@pytest.mark.parametrize(
    "bad",
    [
        [""],
        ["def judge(:"],
        ["", "", "import os"],
        [JUDGE],
        [JUDGE.replace("\n\n", "\n\n# fixed\n"), JUDGE],
        ["", JUDGE, ""],
    ],
)
def test_no_bad_answer_loses_an_objection_or_the_judge(author, bad):
    answers = [{"reasoning": "r", "source": source} for source in [JUDGE, *bad]]
    good = [another_judge(1)] * (len(bad) < 3)
    found = [{"reasoning": "no", "judge_problems": OBJECTIONS}, {"reasoning": "fine"}]
    scripted = Scripted({**SCRIPT, "judge_author": [*answers, *good], "reviewer": found})
    writer = author(scripted)
    written = writer.write(writer.read())
    reviewed = writer.review(written, SOUND)
    assert reviewed.judge == (good[0]["source"] if good else JUDGE)
    for prompt in prompts(scripted, "judge_author")[1:]:
        assert JUDGE in prompt and all(f"- {text}" in prompt for text in OBJECTIONS)
    again = writer.review(reviewed, SOUND, may_rewrite=False)
    assert [each.text for each in again.objections if each.withdrawn is None] == OBJECTIONS
    second = prompts(scripted, "reviewer")[1]
    assert all(f"{n}. (judge) {text}" in second for n, text in enumerate(OBJECTIONS, 1))


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
def test_an_objection_is_withdrawn_by_its_number_and_in_words(author, order):
    away = [
        {"objection": number, "why": f"line {number} of the file settles it"} for number in order
    ]
    reviews = [{"reasoning": "no", "judge_problems": OBJECTIONS}]
    reviews += [{"reasoning": "better", "withdrawn": [each]} for each in away]
    judges = [SCRIPT["judge_author"], *map(another_judge, range(1, 5))]
    scripted = Scripted({**SCRIPT, "judge_author": judges, "reviewer": reviews})
    writer = author(scripted)
    written = writer.write(writer.read())
    for left in (3, 2, 1, 0):
        written = writer.review(written, SOUND)
        assert sum(each.withdrawn is None for each in written.objections) == left
    assert {each.number for each in written.objections} == {1, 2, 3}
    assert len(prompts(scripted, "judge_author")) == 1 + 3, "nothing is open: nothing is rewritten"


@pytest.fixture
def revising(author, tmp_path):
    """Let a script revise what iteration 1 tried."""

    def revise(answers):
        scripted = Scripted({**SCRIPT, "reviser": answers})
        writer = author(scripted)
        folder = SessionFolder(tmp_path / "session")
        write_json(folder.config, asked(intent="run"))
        write_json(folder.author, writer.write(writer.read()))
        first = RewardCandidate(reward=SPEED, env_args={"max_episode_steps": 40}, steps=10_000)
        write_json(folder.iteration(1).candidate, first)
        return scripted, lambda: writer.revise([iteration(1, score(0.3))], ["less noise"])

    return revise


@pytest.mark.parametrize(("seconds", "steps"), [(0.5, 40), (5.0, 100)])
def test_a_revision_does_not_shorten_the_judged_episodes(revising, seconds, steps):
    _, revise = revising([{**REVISION, "seconds": seconds}])
    assert revise().env_args["max_episode_steps"] == steps


def test_a_revision_of_nothing_or_of_refused_code_goes_back(revising):
    wrong = [
        {**REVISION, "based_on": 7},
        {**REVISION, "source": "import socket\n"},
        REVISION,
    ]
    scripted, revise = revising(wrong)
    made = revise()
    assert made.parent == 1 and [each.weights["speed"] for each in made.variants] == [2.0, 4.0]
    first, second, third = prompts(scripted, "reviser")
    assert "Iteration 7 does not exist" in second and "socket" in third
    for part in ("less noise", "class Speed", "`learning_rate`", "def compute"):
        assert part in first


@pytest.mark.parametrize("why", ["", "ok"])
def test_a_withdrawal_without_words_is_not_one(author, why):
    reviews = [
        {"reasoning": "no", "judge_problems": OBJECTIONS[:1]},
        {"reasoning": "fine", "withdrawn": [{"objection": 1, "why": why}]},
        {"reasoning": "fine"},
    ]
    judges = [SCRIPT["judge_author"], another_judge(1), another_judge(2)]
    writer = author(Scripted({**SCRIPT, "judge_author": judges, "reviewer": reviews}))
    written = writer.review(writer.write(writer.read()), SOUND)
    assert writer.review(written, SOUND).objections[0].withdrawn is None
