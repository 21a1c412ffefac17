"""A model that writes honest criteria and a judge that does not measure them never passes."""

import pytest

from telic.authors import _model as model
from telic.authors import author
from telic.authors._second_reader import not_judged
from telic.judges.criteria import CoveredPhrase, Criterion
from telic.judges.measured import read_judge
from telic.session import loop
from telic.storage.files import read_json
from tests.authors.scripts import REWARD, SCRIPT
from tests.session.quick import PASSING

REAL = loop.PROBED, author.second_reading, model.not_judged
JUDGE = """
import numpy as np
from telic import score

def judge(episode):
    return [{0}]
"""
MEASURED = [
    {"title": "runs", "quantity": "forward_velocity", "zero": 0.5, "goal": 2.0, "unit": "m/s"},
    {
        "title": "is up",
        "quantity": "uprightness",
        "zero": 0.2,
        "goal": 0.8,
        "weight": 0.0,
        "is_guard": True,
    },
]
IN_WORDS = [{"title": "runs well", "quantity": "grace", "zero": 0.5, "goal": 2.0}]
BLIND = {
    "times zero": '0.0 * float(np.mean(episode["forward_velocity"])) + 9.0',
    "by start": '0.0 if float(np.abs(episode["qvel"][0]).max()) < 1e-6 else 9.0',
    "by smoothness": '0.0 if float(np.abs(np.diff(episode["qpos"][:, 2])).max()) > 1.0 else 9.0',
    "by truncation": '9.0 if bool(episode["truncated"][-1]) else 0.0',
}


@pytest.fixture
def watched(asking, home):
    """Sessions with the second reader and the hidden examples of a real one."""
    home.setattr(loop, "PROBED", REAL[0])
    home.setattr(author, "second_reading", REAL[1])
    home.setattr(model, "not_judged", REAL[2])
    return asking


def script(criteria, value):
    title = criteria[0]["title"]
    source = JUDGE.format(f'score("{title}", {value}, zero=0.5, goal=2.0)')
    elicited = {**PASSING["elicitor"], "criteria": criteria, "fine": []}
    judge = {"reasoning": "j", "source": source}
    return {**SCRIPT, "elicitor": elicited, "judge_author": judge, "reward_author": REWARD}


def test_what_the_host_can_measure_is_never_left_to_code(watched):
    session, roles = watched.run(script(MEASURED, BLIND["times zero"]))
    assert "judge_author" not in roles and not session.passed
    judge = read_judge(watched.folder.judge.read_text())
    assert not judge.code and [each.measure for each in judge.criteria] == [
        "forward_velocity",
        "uprightness",
    ]
    verdicts = read_json(watched.folder.iteration(1).judgment)["members"][0]["judgment"]
    assert verdicts["criteria"]["runs"][1] < 0.5  # as it is, and not 9.0


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=name, marks=[pytest.mark.long] * (name != "by start"))
        for name, value in BLIND.items()
    ],
)
def test_a_judge_that_is_blind_or_dishonest_ends_the_session_before_training(watched, value):
    session, _ = watched.run(script(IN_WORDS, value))
    summary = session.summary
    assert summary.outcome == "unproven" and summary.iterations == 0 and summary.steps == 0
    assert "train.start" not in watched.kinds() and summary.reasons
    assert (session.path / "report").exists() or summary.reasons


def test_criteria_with_problems_are_returned_in_one_message(watched):
    wrong = [{**MEASURED[0], "quantity": "foward_velocity"}, {**MEASURED[1], "zero": 2.0}]
    wrong[0]["measure"] = "mean(foward_velocity)"
    first = {**script(MEASURED, "1.0")["elicitor"], "criteria": wrong}
    answers = {**script(MEASURED, "1.0")}
    answers["elicitor"] = [first, answers["elicitor"]]
    _, roles = watched.run(answers, until="session.forecast")
    assert roles.count("elicitor") == 2
    sent = watched.requests[1].prompt
    assert "foward_velocity" in sent and "other side of zero" in sent


def test_a_second_reader_names_the_words_that_no_criterion_judges(spec):
    runs, up = (
        Criterion(title=each["title"], quantity="", measure=each["quantity"]) for each in MEASURED
    )
    assert not_judged("run forward", spec, [runs]) == ()
    assert not_judged("run forward", spec, [up]) == ("run", "forward")
    left = not_judged("run forward, then do a backflip", spec, [runs])
    assert left == ("part 2 of the sequence",)
    claims = not_judged("dance the tango", spec, [runs])
    assert "tango" in " ".join(claims)


@pytest.mark.parametrize(
    ("intent", "measure", "left"),
    [
        ("run forward over rough terrain", "", ("over rough terrain",)),
        ("run forward over rough terrain", "highest(ground_step)", ()),
        ("run forward and wave with the left hand", "", ("wave with the left hand",)),
        ("run forward and wave with the left hand", 'mean(body_height("ffoot"))', ()),
        ("climb the stairs", "", ("climb the stairs",)),
        ("turn left while running over hills", "", ("turn left", "over hills")),
    ],
)
def test_a_refused_phrase_needs_a_criterion_that_measures_it(intent, measure, left, spec):
    """Whatever an author claims: the robot has no terrain and no hands, says the composer."""
    runs = Criterion(title=intent, quantity=intent, measure="mean(forward_velocity)")
    more = [Criterion(title="more", quantity="", measure=measure)] if measure else []
    ignored = Criterion(title="free", quantity="ground left hand", weight=0.0)
    words = CoveredPhrase(words=intent, criteria=(intent,))
    assert not_judged(intent, spec, [runs, *more, ignored], [words]) == left


@pytest.mark.parametrize(
    ("intent", "goal", "left"),
    [
        ("run forward at 100 m/s", 1.0, {"100 m/s"}),
        ("run forward at 100 m/s", 100.0, set()),
        ("gyrate by 90 degrees", 1.5708, set()),
        ("gyrate by 90 degrees", 0.5, {"90 degrees"}),
        ("shimmy for 10 s", 1.0, set()),
        ("shimmy at 36 km/h", 10.0, set()),
    ],
)
def test_a_number_that_the_composer_cannot_read_needs_a_criterion_with_it(intent, goal, left, spec):
    words = CoveredPhrase(words=intent, criteria=("does it",))
    measure = "minimum(mean(forward_velocity), 100.0)"  # has the number, but never compares
    does = Criterion(title="does it", quantity="v", measure=measure, goal=goal)
    assert {each for each in not_judged(intent, spec, [does], [words]) if each[0].isdigit()} == left


def test_episodes_shorter_than_the_stated_duration_are_rejected(watched):
    short = script(MEASURED, "1.0")
    short["elicitor"] = [{**short["elicitor"], "seconds": 1.5}, {**short["elicitor"], "seconds": 5}]
    _, roles = watched.run(short, intent="run forward for 5 seconds", until="session.forecast")
    assert roles.count("elicitor") == 2 and "states 5 s" in watched.requests[1].prompt


@pytest.fixture(scope="module")
def spec():
    from telic.envs import make

    env = make("HalfCheetah-v5", num_envs=1)
    env.close()
    return env.spec
