"""A vision model watches real recorded episodes; the model is scripted, the pictures are drawn."""

import json
import struct

import numpy as np
import pytest
import torch

from telic.authors import footage as footage_module
from telic.authors._cast import RoleModels
from telic.authors._vision import VisionJudge, contrast_of
from telic.authors.footage import Footage
from telic.errors import TelicError
from telic.judges.criteria import Criterion, score, total_score
from telic.judges.measured import JudgeFile
from telic.judges.validation import ExampleResult, JudgeValidation
from telic.judges.verdict import WHOLE, judged
from telic.llm import CallLimits, Cancelled, Models, Outage, RawReply
from telic.rendering.job import Rendering
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.testing.models import Scripted
from tests.judges.playing import record
from tests.judges.test_validation import written

LISTED = (
    Criterion(
        title="runs forward",
        quantity="velocity",
        measure="mean(forward_velocity)",
        zero=0.0,
        goal=1.0,
        unit="m/s",
    ),
    Criterion(
        title="stays upright", quantity="angle", measure="mean(uprightness)", zero=0.0, goal=1.0
    ),
)
CRITERIA = JudgeFile(LISTED, (), "")
FAST = CallLimits(deadline_s=600, attempt_s=300, attempts=2, first_wait_s=0.01, longest_wait_s=0.02)


@pytest.fixture(scope="module")
def episodes(tmp_path_factory):
    """Three real episodes of a HalfCheetah that swings its legs for two seconds."""
    folder = tmp_path_factory.mktemp("episodes")
    clock = iter(range(1000))

    def swing(obs):
        return 0.8 * torch.sin(torch.arange(6.0) + 0.6 * next(clock)).expand(len(obs), 6)

    paths = [folder / f"episode_{i}.npz" for i in range(3)]
    return record(swing, "HalfCheetah-v5", {"max_episode_steps": 40}, paths)


@pytest.fixture
def pictures(tmp_path):
    """A folder for pictures."""
    return tmp_path / "pictures"


@pytest.fixture
def really():
    """Ask for pictures that are really drawn; elsewhere each is a file that says what it shows."""


@pytest.fixture(autouse=True)
def drawings(request, monkeypatch):
    """Say which pictures were asked for; unless a test asks otherwise, none is drawn."""
    asked = []

    def draw(jobs):
        asked.extend(jobs)
        for job in jobs:
            job.output.parent.mkdir(parents=True, exist_ok=True)
            job.output.write_text(job.model_dump_json(exclude={"output"}))
        strange = [job.output for job in jobs if job.trajectory.stem == "strange"]
        return [Rendering(output=path, backend="rays", error="4 positions") for path in strange]

    if "really" not in request.fixturenames:
        monkeypatch.setattr(footage_module, "render", draw)
    return asked


def look_for():
    part = {"visible": "legs alternate", "how": "compare lines", "not_this": "sliding"}
    return {"criterion_1": part, "criterion_2": part}


def sightings(runs, upright, whole, episodes=1, start=0.5, end=1.0):
    def part(tenths):
        return {"evidence": f"{tenths} of ten", "start_s": start, "end_s": end, "tenths": tenths}

    parts = {"criterion_1": part(runs), "criterion_2": part(upright), "whole": part(whole)}
    return {f"episode_{number}": parts for number in range(1, episodes + 1)}


class Eyes:
    """A vision model that follows a script: what to look for, then one answer per question."""

    def __init__(self, folder, *answers, name="scripted", contrast=None, **options):
        self.looks = list(answers)
        self.provider = Scripted(self._answer, name=name)
        cast = RoleModels(Models(self.provider, folder, limits=FAST, **options))
        self.judge = VisionJudge(cast, CRITERIA, folder / "pictures", None, contrast)

    def _answer(self, request):
        if not request.images:
            return self.looks[0] if isinstance(self.looks[0], Exception) else look_for()
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    @property
    def asked(self):
        return [each for each in self.provider.requests if each.images]


def test_episodes_of_a_policy_are_judged_in_one_question(tmp_path, episodes):
    eyes = Eyes(tmp_path, sightings(8, 10, 7, 3))
    assert [each.score for each in eyes.judge.watch(episodes)] == [0.7] * 3
    assert len(eyes.asked) == 1 and len(eyes.provider.requests) == 2
    assert len({image.data for image in eyes.asked[0].images}) == 3
    for request in eyes.provider.requests:
        assert request.role == "vision"
        assert "return" not in request.prompt and "reward" not in request.prompt


def test_an_example_that_the_judge_passes_is_not_shown_as_incorrect():
    made = written("", "", env_args={"max_episode_steps": 20})
    scores = {"goes the other way": 1.0, "stops soon": 0.3, "does nothing": 0.1}
    examples = [ExampleResult(name=x, is_good=False, score=y) for x, y in scores.items()]
    trial = JudgeValidation(examples=tuple(examples))
    shown = contrast_of(made, trial, 0.8, (made.env, made.env_args))
    assert [name for name in shown if "incorrect" in name] == [
        'for comparison: a robot that only "stops soon" (incorrect)'
    ]


def test_what_cannot_be_seen_is_unknown(tmp_path, episodes):
    (verdict,) = Eyes(tmp_path, sightings(None, 5, None)).judge.watch(episodes[:1])
    assert verdict.score is None and "not visible" in (verdict.reason or "")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Outage("The service is down."), "is down"),
        (RawReply(text="I am sorry.", finish="refusal"), "declined"),
        ("{1,,}", "no valid"),
        (sightings(8, 10, 7, 2), "no valid"),  # of other episodes than it was shown
    ],
)
def test_a_model_that_does_not_answer_is_unknown_never_zero(tmp_path, episodes, fault, reason):
    (verdict,) = Eyes(tmp_path, fault).judge.watch(episodes[:1])
    assert verdict.source == "vision" and verdict.score is None
    assert reason in (verdict.reason or "")


def test_an_episode_that_cannot_be_drawn_is_unknown_and_the_others_are_watched(tmp_path, episodes):
    empty, strange = tmp_path / "empty.npz", tmp_path / "strange.npz"
    facts = TrajectoryFacts(env_id="HalfCheetah-v5", dt_s=0.05)
    write_trajectory(empty, Trajectory({"qpos": np.zeros((0, 9))}, facts))
    write_trajectory(strange, Trajectory({"qpos": np.zeros((5, 4))}, facts))
    paths = [empty, strange, tmp_path / "missing.npz", episodes[0]]
    verdicts = Eyes(tmp_path, sightings(8, 10, 7)).judge.watch(paths)
    assert [each.score for each in verdicts] == [None, None, None, 0.7]
    reasons = [each.reason or "" for each in verdicts]
    assert "no steps" in reasons[0] and "xpos" in reasons[1]
    assert "Trajectory not found" in reasons[2]


def code(runs):
    scores = [
        score("runs forward", runs, zero=0.0, goal=1.0, unit="m/s"),
        score("stays upright", 1.0, zero=0.0, goal=1.0),
    ]
    return judged(scores, total_score(scores))


@pytest.mark.parametrize(("name", "repeats"), [("scripted", 3), ("host", 1)])
def test_a_dispute_is_looked_at_closer_with_measurements(tmp_path, episodes, name, repeats):
    eyes = Eyes(tmp_path, sightings(2, 10, 7), sightings(9, 10, 9), name=name)
    (settled,) = eyes.judge.second_opinion(episodes[:1], [code(1.0)])
    assert settled.score == pytest.approx(0.7 + 0.3 * 0.9)
    runs = next(each for each in settled.disagreements if each.criterion == "runs forward")
    assert runs.resolved and runs.asked_again == 0.9
    first, *closer = eyes.asked
    assert len(closer) == repeats, "what decides is repeated, but not for people"
    assert not {image.data for image in first.images} & {image.data for image in closer[0].images}
    words = '"runs forward", from 0.50 s to 1.00 s; measured then: `forward_velocity` mean'
    assert words in closer[0].prompt and "`height` mean" in closer[0].prompt


def test_a_dispute_that_stays_lowers_the_score_and_is_on_record(tmp_path, episodes):
    eyes = Eyes(tmp_path, sightings(2, 10, 3), sightings(1, 10, 2))
    (settled,) = eyes.judge.second_opinion(episodes[:1], [code(1.0)])
    assert settled.score == pytest.approx(0.2 + 0.7 * 0.25)
    assert [(each.criterion, each.resolved) for each in settled.disagreements] == [
        ("runs forward", False),
        (WHOLE, False),
    ]


def test_a_look_alike_fails_on_all_episodes_although_only_some_are_watched(tmp_path, episodes):
    verdicts = [code(each) for each in (0.9, 1.0, 0.95)] * 2
    every = Eyes(tmp_path, sightings(0, 10, 1, 3)).judge.second_opinion(
        [*episodes, *episodes], verdicts
    )
    assert len(every) == 6 and all((each.score or 0.0) < 0.3 for each in every)
    assert sum(bool(each.seen) for each in every) == 3, "the others were not watched"


# ---- sheets


def test_what_the_session_played_is_drawn_whatever_the_recording_says(tmp_path, drawings):
    path = tmp_path / "pole.npz"
    columns = {
        "obs": np.zeros((30, 4), dtype=np.float32),
        "next_obs": np.zeros((30, 4), dtype=np.float32),
        "action": np.zeros(30, np.int64),
    }
    says = TrajectoryFacts(
        env_id="evil.py:Env", env_kwargs={"xml_file": "/etc/passwd"}, model_path="/x.xml", dt_s=0.02
    )
    write_trajectory(path, Trajectory(columns, says))
    asked = ("CartPole-v1", {"max_episode_steps": 30})
    footage = Footage(path, tmp_path, asked)
    footage.sheet()
    assert footage.spec.id == "CartPole-v1" and footage.places() == ""
    assert {(job.env, json.dumps(job.env_args)) for job in drawings} == {
        (asked[0], json.dumps(asked[1]))
    }
    with pytest.raises(TelicError, match="must not refer"):
        Footage(path, tmp_path)


def size_of(png):
    return struct.unpack(">II", png[16:24])


def test_a_request_to_stop_is_not_a_verdict(tmp_path, episodes):
    with pytest.raises(Cancelled):
        Eyes(tmp_path, {}, should_stop=lambda: True).judge.watch(episodes)


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, (0.5, 1.0), (1.9, 2.5)])
def test_sheets_are_drawn_once_and_hold_all_their_pictures(episodes, pictures, really, window):
    footage = Footage(episodes[0], pictures)
    sheet = footage.sheet(CRITERIA) if window is None else footage.close_up(window)
    width, height = size_of(sheet.read_bytes())
    assert width == 6 * 244 - 4 and height > 2 * 180 + 2 * 56
    written = sheet.stat().st_mtime_ns
    again = footage.sheet(CRITERIA) if window is None else footage.close_up(window)
    assert again.stat().st_mtime_ns == written
