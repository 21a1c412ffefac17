"""The report: says what happened, escapes what others wrote, and never fails a session."""

import re
import shlex

import pytest

from telic.authors.candidate import (
    Lesson,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    handed_out,
)
from telic.authors.request import SessionConfig, parse_criteria
from telic.judges.criteria import Composition, Criterion, guard, leaf, total_score
from telic.judges.verdict import judged, together, unknown
from telic.llm.answers import Replies
from telic.rendering import Rendering
from telic.session import _report_sections as pictures
from telic.session._report_sections import (
    command,
)
from telic.session.report import save_report
from telic.storage.files import read_json, write_json, write_text
from telic.storage.layout import SessionFolder
from telic.storage.scalars import ScalarLog
from tests.event_list import EventList
from tests.report.reader import Reader
from tests.session.sessions import summary_of
from tests.session.test_budget import pay

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>|`**"
JUDGE = f"def judge(episode):\n    return []  # {EVIL} ```\n"
REWARD = f'class R:\n    """{EVIL}"""\n'


def score(value, seed=1, variant=0, title="runs", unit="m/s"):
    """A policy whose episodes earned about `value`; None could not be judged."""
    verdicts = []
    for index in range(64):
        if value is None:
            verdicts.append(unknown("code", f"judge_fn.py: KeyError: {EVIL}"))
            continue
        credit = min(1.0, max(0.0, value + 0.02 * (index % 4 - 1.5)))
        scores = [
            leaf(title, 3.0 * credit, zero=0.0, goal=3.0, unit=unit, tag="too_slow"),
            guard("is upright", 1.0, zero=0.3, goal=0.8, tag="falls"),
        ]
        verdicts.append(judged(scores, total_score(scores)))
    return MemberScore(
        member=f"reward_seed_{seed}",
        variant=variant,
        seed=seed,
        step=256,
        judgment=together(verdicts),
    )


def iteration(number, *members, passed=False, change="first try"):
    known = [each.judgment.score for each in members if each.judgment.score is not None]
    best = max(members, key=lambda each: each.low)
    return SessionIteration(
        number=number,
        parent=number - 1 or None,
        change=change,
        passed=passed,
        score=sum(known) / len(known) if known else None,
        variant=best.variant,
        best=best.member,
        tags=best.judgment.tags,
        members=members,
        steps=512,
        training_s=10.0,
        judging_s=2.0,
    )


class Session:
    """A session on disk, made without training."""

    def __init__(self, path, *history, intent="run fast", outcome="not_passed", **config):
        self.folder = SessionFolder(path / "session_20260102_030405_abcd1234")
        self.folder.path.mkdir()
        self.config = SessionConfig(intent=intent, env="HalfCheetah-v5", **config)
        self.author = Composition(
            intent=intent,
            env="HalfCheetah-v5",
            criteria=(Criterion(title="runs", quantity="v"),),
            reward=REWARD,
            judge=JUDGE,
            env_args={},
            steps=256,
            doubts=(),
            not_understood=(),
        )
        self.history = list(history)
        best = max(self.history, key=lambda each: each.score or -1.0, default=None)
        member = next(each for each in best.members if each.member == best.best) if best else None
        self.summary = summary_of(
            self.folder,
            intent=intent,
            outcome=outcome,
            iterations=len(self.history),
            best_iteration=best.number if best else None,
            best_member=best.best if best else None,
            steps=512 * len(self.history),
            score=member.judgment.score if member else None,
            low=member.judgment.low if member else None,
        )
        for each in self.history:
            self.write_iteration(each)

    def write_iteration(self, each, **candidate):
        files = self.folder.iteration(each.number)
        made = {"reward": REWARD, "env_args": {}, "steps": 256, "parent": each.parent, **candidate}
        write_json(files.candidate, RewardCandidate(**made))
        write_json(files.run.manifest, {"versions": {"telic": "9.8.7"}, "python": "3.11"})
        for member in each.members:
            own = files.run.member("reward", member.seed)
            write_text(own.reward_code, REWARD)
            spec = {"latex": r"r = w v", "terms": [{"name": "speed", "description": EVIL}]}
            write_json(own.reward_spec, spec)
            write_json(own.summary, {"findings": [{"message": EVIL}]})
            log = ScalarLog(own.scalars)
            for step in (128, 256):
                log.append({"global_step": step, "episodic_return": float(step + member.seed)})
            terms = {"speed": 30.0, "control": -10.0}
            log.append(
                {"type": "eval", "global_step": 256, "mean_return": 300.0, "reward_terms": terms}
            )
            log.close()

    def report(self):
        """Write the report, and return the page, Markdown and reported events."""
        reported = EventList()
        save_report(self.folder, self.config, self.author, self.history, self.summary, reported)
        return self.folder.page.read_text(), self.folder.report.read_text(), reported


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """Draw nothing, quickly; sizes by file name may be set."""
    sizes = {}

    def render(jobs):
        for job in jobs:
            write_text(job.output, "x" * sizes.get(job.output.name, 10))
        return [Rendering(output=job.output, backend="egl") for job in jobs]

    monkeypatch.setattr(pictures, "render", render)
    return sizes


def test_page_contains_the_whole_session(tmp_path):
    first = iteration(1, *(score(0.5, seed) for seed in (1, 2, 3)))
    second = iteration(2, *(score(0.95, seed) for seed in (1, 2, 3)), passed=True, change="faster")
    session = Session(tmp_path, first, second, outcome="passed")
    page, markdown, reported = session.report()
    text = Reader(page).text
    assert reported == []
    for part in (text, markdown.replace("\\", "")):
        assert "The best policy scores 0.95 on 64 new episodes" in part
        assert "2 of 3 training seeds must prove 0.8; 3 of 3 did." in part
        assert "≥ 3 m/s" in part and "faster" in part and "9.8.7" in part
        assert "25%" in part and "−10" in part  # the cost's share of the reward
        assert "telic run 'run fast' --env HalfCheetah-v5" in part
        assert "iter_2/train --member reward_seed_1 --step 256" in part  # what was judged
        assert "elapsed time" in part and "judging" in part
    headings = [tag for tag, _ in Reader(page).elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1" and headings.count("h1") == 1
    assert page.count('class="line"') == 2  # a learning curve per iteration


def test_foreign_text_stays_text(tmp_path):
    tried = [iteration(1, score(0.5, title=EVIL, unit=EVIL), change=EVIL), iteration(2, score(0.6))]
    session = Session(tmp_path, *tried, intent=EVIL, seeds=(1,))
    lessons = (Lesson(text=EVIL),)
    session.write_iteration(tried[0], diagnosis=EVIL, lessons=lessons, change=EVIL)
    session.summary = session.summary.model_copy(
        update={"doubts": (EVIL,), "not_understood": (EVIL,), "best_iteration": 1, "reason": EVIL}
    )
    page, markdown, reported = session.report()
    assert reported == []
    read = Reader(page)
    assert "<script>alert(1)</script>" in read.text  # shown as it was typed
    assert not [tag for tag, _ in read.elements if tag == "script"]
    assert not [name for _, each in read.elements for name in each if name.startswith("on")]
    outside_code = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", markdown)
    outside_code = re.sub(r"(?m)^<!-- (telic|ed25519)[^<>]*-->$", "", outside_code)
    assert re.findall(r"(?<!\\)<(?!br>)", outside_code) == []
    rows = [line for line in outside_code.splitlines() if line.startswith("| ")]
    columns = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    assert all(each in (3, 5, 6, 8) for each in columns)


def test_what_could_not_be_judged_is_unknown_and_says_why(tmp_path):
    session = Session(tmp_path, iteration(1, score(None)), seeds=(1,))
    page, markdown, _ = session.report()
    for part in (Reader(page).text, markdown.replace("\\", "")):
        assert "No policy could be judged" in part and "judge_fn.py: KeyError" in part
        assert "unknown" in part and "0.00" not in part


def test_a_damaged_file_costs_one_section_only(tmp_path):
    session = Session(tmp_path, iteration(1, score(0.9)), seeds=(1,))
    session.folder.iteration(1).run.manifest.write_text("{")
    session.folder.iteration(1).run.member("reward", 1).scalars.write_text("[\n")
    page, markdown, reported = session.report()
    text = Reader(page).text
    assert "Missing" in text and "manifest.json is not valid JSON" in text
    assert "“Learning curves”" in text and "The best policy scores" in text
    assert len(reported) == 3  # versions, curves, terms
    assert "## Missing" in markdown


def test_the_command_asks_for_the_same_again(tmp_path):
    config = SessionConfig(
        intent="don't fall", env="Hopper-v5", seeds=(1, 5), max_usd=2.0, vision=False
    )
    request = tmp_path / "session.json"
    words = ["--env", "Hopper-v5", "--seeds", "1,5", "--no-vision", "--max-usd", "2.0"]
    assert shlex.split(command(config, request)) == ["telic", "run", "don't fall", *words]
    agreed = config.replace(criteria=(Criterion(title="runs", quantity="v"),))
    write_json(request, agreed)
    assert f"--criteria {request}" in command(agreed, request)
    assert parse_criteria(read_json(request)) == agreed.criteria


def test_the_verb_writes_the_same_report_again_from_the_files(tmp_path):
    from telic.verbs.artifacts import report

    session = Session(tmp_path, iteration(1, score(0.4)))
    page, markdown, _ = session.report()
    files = session.folder
    write_json(files.config, session.config)
    write_json(files.author, session.author)
    write_json(files.iteration(1).judgment, session.history[0])
    write_json(files.summary, session.summary)
    files.page.unlink()
    files.report.write_text("old")
    place = report(files.name, runs_dir=tmp_path)
    assert (place.markdown, place.page) == (str(files.report), str(files.page))
    assert files.page.read_text() == page and files.report.read_text() == markdown


@pytest.mark.parametrize(
    ("history", "number"),
    [
        # A reward whose policies are all fair, and one of whose three policies one is good.
        ([(0.76, 0.67, 0.63), (0.4, 0.97, 0.39), (0.62, 0.66, 0.61)], 2),
        ([(0.9, 0.9, 0.9), (0.2, 0.2, 0.2)], 1),
        ([(None, None, None), (0.0, 0.0, 0.0)], 2),
    ],
)
def test_the_policy_that_proves_most_is_handed_out_whatever_the_others_of_its_reward(
    history, number
):
    tried = [
        iteration(place, *(score(value, seed) for seed, value in enumerate(values, 1)))
        for place, values in enumerate(history, 1)
    ]
    assert handed_out(tried).number == number
    passed = iteration(9, score(0.85), passed=True)
    assert handed_out([*tried, passed]).number == 9
    assert handed_out([]) is None


def test_a_long_video_is_drawn_smaller_or_linked(tmp_path, drawn):
    session = Session(tmp_path, iteration(1, score(0.9)), seeds=(1,))
    drawn["median.mp4"] = pictures.MAX_INLINE + 1
    page, _, _ = session.report()
    assert "<video" in page and len(page) < pictures.MAX_INLINE
    drawn["median_small.mp4"] = pictures.MAX_INLINE + 1
    page, _, _ = session.report()
    assert "<video" not in page and 'href="report/median.mp4"' in page


def test_what_models_cost_is_what_was_paid_also_for_nothing(tmp_path):
    session = Session(tmp_path, iteration(1, score(0.9)), seeds=(1,))
    pay(session.folder, "good", 0.25)
    pay(session.folder, "useless", 0.5)
    Replies(session.folder.path / "replies").set_aside("useless")
    _, markdown, _ = session.report()
    for row in ("| model | anthropic:x |", "| model calls | 2 |", "| tokens | 300 |"):
        assert row in markdown
    pay(session.folder, "unpriced", None, tokens=(None, 1))
    page, markdown, _ = session.report()
    assert "price unknown" in Reader(page).text and "| tokens | unknown |" in markdown
