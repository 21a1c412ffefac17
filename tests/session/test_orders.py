"""The orders of whole sessions: one beginning, few tokens; objections, flips and labels."""

import csv
from pathlib import Path

import pytest

from telic.authors import footage
from telic.core.config import Record
from telic.errors import UsageError
from telic.llm import Request
from telic.llm.work_orders import answer_orders, list_orders, publish
from telic.rendering.job import Rendering
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder
from tests.authors.scripts import JUDGE, REVISION
from tests.bench.test_speed_scripts import script
from tests.session.quick import FAILING, PASSING, SCRIPT


def size(request, folder):
    """Return the tokens of an order as a person or agent reads it, at four characters each."""
    key = request.key("host")
    publish(folder, key, request.model_copy(update={"images": ()}))
    return len((folder / f"{key}.md").read_text()) / 4


def seen(request):
    """Answer as the vision model: everything is as it should be."""
    if not request.images:
        part = {"visible": "it moves as it is meant to", "how": "look", "not_this": "sliding"}
        return dict.fromkeys(request.answer.model_fields, part)
    part = {"evidence": "it is there", "start_s": 0.0, "end_s": 1.0, "tenths": 10}
    form = next(iter(request.answer.model_fields.values())).annotation
    return {name: dict.fromkeys(form.model_fields, part) for name in request.answer.model_fields}


def answering(script):
    """Return a model that follows a script, in order where there are several answers."""
    left = {role: list(each) if isinstance(each, list) else [each] for role, each in script.items()}

    def answer(request):
        if request.role == "vision":
            return seen(request)
        own = left[request.role]
        return own.pop(0) if len(own) > 1 else own[0]

    return answer


@pytest.fixture
def pictures(home):
    """Draw nothing: each picture is a file that says what it shows."""

    def draw(jobs, **_):
        for job in jobs:
            job.output.parent.mkdir(parents=True, exist_ok=True)
            job.output.write_text(job.model_dump_json(exclude={"output"}))
        return [Rendering(output=job.output, backend="rays") for job in jobs]

    home.setattr(footage, "render", draw)


@pytest.mark.parametrize(
    "script",
    [PASSING, pytest.param({**FAILING, "reviser": REVISION}, marks=pytest.mark.long)],
    ids=["pass", "fail"],
)
def test_all_orders_of_a_session_begin_alike(asking, pictures, script):
    asking.run(answering(script), vision=True, iterations=2)
    starts = [f"{each.system}\n{each.prompt}" for each in asking.requests]
    context = (asking.folder.path / "context.md").read_text(encoding="utf-8")
    assert "# Quantities" in context and "| foot_phase_lock |" in context
    brief, _, rest = context.partition("\n# ")
    for each, start in zip(asking.requests, starts, strict=True):
        assert start.startswith(f"{asking.requests[0].system}\n{brief.strip()}")
        assert (rest in start) == (each.role not in ("vision", "analyst")), "they write no code"
    assert len({each.role for each in asking.requests}) >= 6
    (analyst,) = [each.prompt for each in asking.requests if each.role == "analyst"]
    if script is PASSING:  # its judge takes anything that lasts
        assert "**unproven**" in analyst and "The result is unproven" in analyst
    else:
        (reviser,) = [each for each in asking.requests if each.role == "reviser"]
        assert len(reviser.images) == 1
        for part in (
            "`learning_rate`",
            "## Contract of a reward",
            "| step | episodic_return",
            "by reward term",
        ):
            assert part in reviser.prompt, part


def test_an_open_objection_is_in_the_report_and_forbids_a_pass(asking):
    script = {**PASSING, "reviewer": {"reasoning": "no", "judge_problems": ["lasts is no running"]}}
    script["elicitor"] = {**script["elicitor"], "fine": SCRIPT["elicitor"]["fine"]}
    session, _ = asking.run(script)
    assert session.summary.outcome == "unproven"
    words = "a reviewer's objection to the judge is open: lasts is no running"
    assert words in session.summary.reasons
    assert "Objections of reviewers" in (session.path / "report.md").read_text()
    assert read_json(SessionFolder(session.path).author)["judge"].endswith(JUDGE), "it is kept"


class Answer(Record):
    """Return a valid answer to an order."""

    score: int


def test_answers_are_handed_in_together_and_each_refusal_is_named(tmp_path):
    orders, answers = tmp_path / "orders", tmp_path / "answers"
    answers.mkdir()
    for key, answer in (("ab12", "{}"), ("cd34", '{"score": 1}')):
        publish(orders, key, Request(role="judge", prompt="?", answer=Answer))
        (answers / f"{key}.json").write_text(answer)
    accepted, refused = answer_orders(orders, answers)
    assert list(accepted) == ["cd34"] and "required" in refused["ab12"]
    assert {each.key: each.state for each in list_orders(orders)} == {
        "ab12": "open",
        "cd34": "answered",
    }


MOST_TOKENS = 36_000


MEASURES = {
    "turns over backward once": "highest(-pitch_turns)",
    "lands on its feet": "longest((pitch_turns < -0.85) & (feet_in_contact > 0))",
    "turns only once": "highest(-pitch_turns)",
    "is upright at the end": "last(uprightness)",
}


@pytest.mark.slow
def test_the_orders_of_a_recorded_session_are_affordable(asking, pictures, tmp_path):
    """Recorded model answers for a backflip, with a revision and disputes about both iterations."""
    recorded = read_json(Path(__file__).parent / "recorded" / "backflip.json")
    script = {}
    for each in recorded["answers"]:
        answer = {name: value for name, value in each["answer"].items() if name != "others"}
        script.setdefault(each["role"], answer)
    script["elicitor"]["criteria"] = [
        {**criterion, "measure": MEASURES[criterion["title"]]}
        for criterion in script["elicitor"]["criteria"]
        if criterion["title"] in MEASURES
    ]
    script["reviser"] = {**REVISION, "weights": [], "source": script["reward_author"]["source"]}
    asking.run(answering(script), vision=True, iterations=2, seeds=(1,))
    # A person or agent is not asked the same question twice.
    orders = {each.prompt: size(each, tmp_path / "orders") for each in asking.requests}
    assert len(orders) >= 9 and sum(orders.values()) < MOST_TOKENS, sorted(orders.values())
    assert any("## Median episode of" in prompt for prompt in orders)


def test_verdicts_are_checked_on_fresh_episodes_and_by_people(asking, pictures, tmp_path):
    session, _ = asking.run(PASSING)
    folder = SessionFolder(session.path)
    flip_rate, labeling = script("verdicts").flip_rate, script("verdicts").labeling
    report = flip_rate([folder])
    assert report.flips.total == 2 and report.flips.passed == 0 and report.flips.high < 1.0
    assert all(each.low == each.low_again for each in report.policies)
    assert not (folder.iteration(1).path / "judged_again").exists()
    task = labeling([folder], tmp_path / "task", 6)
    assert task.episodes == 6 and len(list((tmp_path / "task").glob("*.png"))) == 6
    table = tmp_path / "task" / "labels.csv"
    with pytest.raises(UsageError, match="no labels yet"):
        labeling([folder], tmp_path / "task")
    with table.open() as file:
        head, *rows = list(csv.reader(file))
    assert "score" not in head and "0." not in table.read_text(), "labellers see no score"
    for number, row in enumerate(rows):
        row[2], row[3] = "yes", "No" if number == 0 else "yes"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    found = labeling([folder], tmp_path / "task")
    assert (found.judge.passed, found.judge.total) == (11, 12)
    assert (found.people.passed, found.people.total) == (5, 6)
    assert found.differ == (rows[0][0],)
