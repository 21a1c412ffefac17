"""A vision model watches real recorded episodes; the model is scripted, the pictures are drawn."""

import json
import struct

import numpy as np
import pytest
import torch

from telic.authors import footage as footage_module
from telic.authors.cast import Cast
from telic.authors.footage import Footage
from telic.authors.vision import VisionJudge
from telic.errors import TelicError
from telic.judges.criteria import score, total
from telic.judges.verdict import WHOLE, judged
from telic.llm import CallLimits, Cancelled, Models, Outage, RawReply
from telic.llm.records import VIDEO
from telic.rendering.job import Rendering
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory
from telic.testing.models import Scripted
from tests.judges.playing import record

INTENT = "run forward"
CRITERIA = {name: name for name in ("runs forward", "stays upright")}
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


def look_for(measure="forward_velocity"):
    part = {"visible": "legs alternate", "how": "compare lines", "not_this": "sliding"}
    return {"criterion_1": {**part, "measure": measure}, "criterion_2": part}


def sightings(runs, upright, whole, start=0.5, end=1.0):
    def part(tenths):
        return {"evidence": f"{tenths} of ten", "start_s": start, "end_s": end, "tenths": tenths}

    parts = {"criterion_1": part(runs), "criterion_2": part(upright), "whole": part(whole)}
    return {name: each for name, each in parts.items() if each["tenths"] != "absent"}


def again(runs, whole):
    return sightings(runs, "absent", whole)


def script(judge, second=None):
    return {"vision_criteria": look_for(), "vision_judge": judge, "vision_again": second}


@pytest.fixture
def watching(tmp_path, pictures):
    def work(provider, episodes, **options):
        models = Models(provider, tmp_path, limits=FAST, **options)
        return VisionJudge(Cast(models), INTENT, CRITERIA, pictures).watch(episodes)

    return work


def size_of(png):
    return struct.unpack(">II", png[16:24])


def test_each_episode_is_seen_once_and_the_middle_one_repeatedly(watching, episodes):
    provider = Scripted(script(sightings(8, 10, 7)))
    verdicts = watching(provider, episodes)
    assert [each.score for each in verdicts] == [0.7] * 3
    assert [len(each.seen[0].answers) for each in verdicts] == [1, 3, 1]
    assert [each.spread for each in verdicts] == [0.0] * 3
    roles = [each.role for each in provider.requests]
    assert roles.count("vision_criteria") == 1 and roles.count("vision_judge") == 5
    assert sorted(each.sample for each in provider.requests[1:]) == [0, 0, 0, 1, 2]
    shown = {tuple(image.data for image in each.images[:2]) for each in provider.requests[1:]}
    assert len(shown) == 5, "no look at the same pictures twice"


def test_what_to_see_is_settled_before_anything_is_seen(watching, episodes):
    provider = Scripted(script(sightings(8, 10, 7)))
    watching(provider, episodes[:1])
    first, second = provider.requests[0], provider.requests[1]
    assert first.role == "vision_criteria" and first.images == ()
    assert "forward_velocity" in first.prompt and "2. stays upright" in first.prompt
    assert "legs alternate" in second.prompt and "sliding" in second.prompt
    assert len(second.images) == 3 and "3. its fastest motion, every step from" in second.prompt


def test_a_model_that_watches_videos_gets_one_beside_the_sheets(watching, episodes):
    provider = Scripted(script(sightings(8, 10, 7)), name="google:gemini-unheard-of")
    assert watching(provider, episodes[:1])[0].score == 0.7
    film, *sheets = provider.requests[1].images
    assert film.media_type == VIDEO and len(sheets) == 3
    assert "1. a video of the whole episode in real time" in provider.requests[1].prompt


def test_the_judge_learns_nothing_of_reward_or_other_judges(watching, episodes):
    provider = Scripted(script(sightings(8, 10, 7)))
    watching(provider, episodes)
    for request in provider.requests:
        assert "return" not in request.prompt and "reward" not in request.prompt


def test_what_cannot_be_seen_is_unknown(watching, episodes):
    (verdict,) = watching(Scripted(script(sightings(None, 5, None))), episodes[:1])
    assert verdict.score is None and "cannot be seen" in (verdict.reason or "")


@pytest.mark.parametrize(
    ("role", "fault", "reason"),
    [
        ("vision_criteria", Outage("The service is down."), "is down"),
        ("vision_judge", RawReply(text="I am sorry.", finish="refusal"), "declined"),
        ("vision_judge", "{1,,}", "no valid"),
    ],
)
def test_a_model_that_does_not_answer_is_unknown_never_zero(
    watching, episodes, role, fault, reason
):
    provider = Scripted(script(sightings(8, 10, 7)) | {role: fault})
    (verdict,) = watching(provider, episodes[:1])
    assert verdict.source == "vision" and verdict.score is None
    assert reason in (verdict.reason or "")


def test_a_malformed_answer_is_repaired(watching, episodes):
    good = sightings(8, 10, 7)
    without = {name: part for name, part in good.items() if name != "criterion_2"}
    provider = Scripted(script([without, good, good, good]))
    (verdict,) = watching(provider, episodes[:1])
    assert verdict.score == 0.7 and len(verdict.seen[0].answers) == 3
    assert any("criterion_2: Field required" in each.prompt for each in provider.requests)


def test_a_request_to_stop_is_not_a_verdict(watching, episodes):
    with pytest.raises(Cancelled):
        watching(Scripted(script({})), episodes, should_stop=lambda: True)


def test_an_episode_that_cannot_be_drawn_is_unknown_and_the_others_are_watched(
    watching, episodes, tmp_path
):
    empty, strange = tmp_path / "empty.npz", tmp_path / "strange.npz"
    facts = TrajectoryFacts(env_id="HalfCheetah-v5", dt_s=0.05)
    write_trajectory(empty, Trajectory({"qpos": np.zeros((0, 9))}, facts))
    write_trajectory(strange, Trajectory({"qpos": np.zeros((5, 4))}, facts))
    paths = [empty, strange, tmp_path / "missing.npz", episodes[0]]
    verdicts = watching(Scripted(script(sightings(8, 10, 7))), paths)
    assert [each.score for each in verdicts] == [None, None, None, 0.7]
    reasons = [each.reason or "" for each in verdicts]
    assert "no steps" in reasons[0] and "cannot be drawn" in reasons[1]
    assert "no trajectory" in reasons[2]


def code(runs):
    leaves = [
        score("runs forward", runs, zero=0.0, goal=1.0, unit="m/s"),
        score("stays upright", 1.0, zero=0.0, goal=1.0),
    ]
    return judged(leaves, total(leaves))


@pytest.fixture
def settling(tmp_path, pictures):
    def work(provider, episode, verdict):
        models = Models(provider, tmp_path, limits=FAST)
        eyes = VisionJudge(Cast(models), INTENT, CRITERIA, pictures)
        (vision,) = eyes.watch([episode], repeats=1)
        return eyes.settle(episode, verdict, vision)

    return work


def test_a_dispute_is_looked_at_closer_with_a_measurement_and_resolved(settling, episodes):
    provider = Scripted(script(sightings(2, 10, 7), again(9, 9)))
    settled = settling(provider, episodes[0], code(1.0))
    assert settled.score == pytest.approx(0.7 + 0.3 * 0.9)
    whole, runs = (
        next((each for each in settled.disagreements if each.criterion == name), None)
        for name in (WHOLE, "runs forward")
    )
    assert runs is not None and runs.resolved and runs.asked_again == 0.9
    assert whole is not None and whole.resolved
    assert runs.check is not None and runs.check.quantity == "forward_velocity"
    assert (runs.check.start_s, runs.check.end_s) == pytest.approx((0.5, 1.0))
    assert runs.check.lowest <= runs.check.mean <= runs.check.highest
    first = [each for each in provider.requests if each.role == "vision_judge"]
    looks = [each for each in provider.requests if each.role == "vision_again"]
    assert len(looks) == 3, "what decides is repeated"
    old = {image.data for each in first for image in each.images}
    pictures = [image.data for each in looks for image in each.images]
    assert len(set(pictures)) == len(pictures) and not set(pictures) & old, "all are new"
    request = looks[0]
    assert "- **runs forward**, from 0.50 s to 1.00 s" in request.prompt
    assert "`forward_velocity` [m/s] from 0.50 s to 1.00 s: mean" in request.prompt
    assert "`height` [m] from" in request.prompt
    assert "stays upright" not in request.prompt, "it is not in dispute"


def test_a_dispute_that_stays_lowers_the_score_and_is_on_record(settling, episodes):
    provider = Scripted(script(sightings(2, 10, 3), again(1, 2)))
    settled = settling(provider, episodes[0], code(1.0))
    assert settled.score == pytest.approx(0.2 + 0.7 * 0.25)
    assert [(each.criterion, each.resolved) for each in settled.disagreements] == [
        ("runs forward", False),
        (WHOLE, False),
    ]


def test_a_look_alike_fails_on_all_episodes_although_only_some_are_watched(
    episodes, tmp_path, pictures
):
    verdicts = [code(each) for each in (0.9, 1.0, 0.95)] * 2
    paths = [*episodes, *episodes]
    provider = Scripted(script(sightings(0, 10, 1), again(0, 1)))
    models = Models(provider, tmp_path, limits=FAST)
    every = VisionJudge(Cast(models), INTENT, CRITERIA, pictures).second_opinion(paths, verdicts)
    assert len(every) == 6 and all((each.score or 0.0) < 0.3 for each in every)
    assert sum(bool(each.seen) for each in every) == 3, "the others were not watched"


def test_the_median_of_the_deciding_looks_counts(settling, episodes):
    provider = Scripted(script(sightings(2, 10, 3), [again(9, 9), again(1, 1), again(8, 8)]))
    settled = settling(provider, episodes[0], code(1.0))
    assert settled.score == pytest.approx(0.7 + 0.3 * 0.8)
    runs = next(each for each in settled.seen if each.criterion == "runs forward")
    assert runs.score == 0.8 and sorted(runs.answers) == [0.1, 0.8, 0.9]


def test_a_host_is_never_asked_the_same_question_twice(episodes, tmp_path, monkeypatch):
    provider = Scripted(script(sightings(8, 10, 7), again(8, 8)), name="host")
    eyes = VisionJudge(Cast(Models(provider, tmp_path, limits=FAST)), INTENT, CRITERIA, tmp_path)
    eyes.second_opinion(list(episodes), [code(0.0)] * 3)
    keys = [each.key("host") for each in provider.requests]
    assert len(keys) == len(set(keys)) and {each.sample for each in provider.requests} == {0}
    same = Scripted(script(sightings(8, 10, 7)), name="host")
    monkeypatch.setattr(Footage, "overviews", lambda footage, n: footage.close_ups([None]) * n)
    eyes = VisionJudge(Cast(Models(same, tmp_path / "b", limits=FAST)), INTENT, CRITERIA, tmp_path)
    (verdict,) = eyes.watch(episodes[:1])
    assert len(same.requests) == 2 and len(verdict.seen[0].answers) == 1 and verdict.spread is None


def test_a_single_episode_is_looked_at_once_unless_something_is_in_doubt(episodes, tmp_path):
    provider = Scripted(script(sightings(8, 10, 9)))
    eyes = VisionJudge(Cast(Models(provider, tmp_path, limits=FAST)), INTENT, CRITERIA, tmp_path)
    eyes.second_opinion(episodes[:1], [code(1.0)])
    assert [each.role for each in provider.requests] == ["vision_criteria", "vision_judge"]


@pytest.mark.slow
def test_sheets_are_drawn_once_and_hold_all_their_pictures(episodes, pictures, really):
    (sheets,) = Footage(episodes[0], pictures).overviews()
    usual, oblique, fastest = (each.image.data for each in sheets)
    assert size_of(usual) == (6 * 242 - 2, 4 * 182 - 2)
    assert size_of(oblique) == size_of(fastest) == (6 * 242 - 2, 2 * 182 - 2)
    written = {each.path: each.path.stat().st_mtime_ns for each in sheets}
    (again,) = Footage(episodes[0], pictures).overviews()
    assert {each.path: each.path.stat().st_mtime_ns for each in again} == written


def test_close_ups_are_nearer_denser_from_another_side_and_inside_the_episode(
    episodes, pictures, drawings
):
    footage = Footage(episodes[0], pictures)
    ((near, side),) = footage.close_ups([(1.9, 2.5)])
    assert near.words.endswith("up and down too, from 0.85 s to 2.00 s"), "24 steps at the end"
    assert side.words == "seen obliquely from behind, from 0.85 s to 2.00 s"
    assert [job.near for job in drawings] == [True, False] and drawings[1].view == "rear-quarter"
    assert all(job.ruler and job.caption == "time" for job in drawings)
    ((*halves, _),) = footage.close_ups([None])
    assert [each.words.partition("too, ")[2] for each in halves] == [
        "from 0.00 s to 1.00 s",
        "from 1.00 s to 2.00 s",
    ]
    ((_, side),) = footage.close_ups([(0.2, 1.2), (0.25, 1.25)])  # nearly the same: shown once
    assert side.words.endswith("from 0.10 s to 1.30 s")


def test_the_way_of_the_robot_is_told_in_numbers(episodes, tmp_path):
    footage = Footage(episodes[0], tmp_path)
    lines = footage.places().splitlines()
    assert "camera follows" in lines[0] and len(lines) == 12
    track = footage.trajectory["xpos"][:, 1]
    assert lines[2] == f"- 0.05 s: 0.00 m forward, 0.00 m left, {track[0, 2]:.2f} m high"
    moved = track[-1, 0] - track[0, 0]
    assert f"{abs(moved):.2f} m {'forward' if moved >= 0 else 'back'}" in lines[-3]
    assert f"({track[:, 2].max():.2f} m) and lowest" in lines[-1]


def test_an_environment_that_draws_itself_is_asked_for_fewer_larger_pictures(tmp_path, drawings):
    path = tmp_path / "pole.npz"
    states = np.zeros((30, 4), dtype=np.float32)
    columns = {"next_obs": states, "action": np.zeros(30, dtype=np.int64)}
    write_trajectory(path, Trajectory(columns, TrajectoryFacts(env_id="CartPole-v1", dt_s=0.02)))
    footage = Footage(path, tmp_path)
    words = [each.words for each in footage.overviews()[0]]
    assert words == ["from 0.00 s to 0.30 s", "from 0.30 s to 0.60 s"]
    assert [(each.frames, each.columns, each.view) for each in drawings] == [(12, 3, None)] * 2
    assert [each.caption for each in drawings] == ["time"] * 2
    assert footage.places() == ""
    seen = {(each.between_s, each.shift) for each in drawings}
    footage.close_ups([None], 3)
    newer = [(each.between_s, each.shift) for each in drawings[2:]]
    assert len(set(newer)) == len(newer) == 9 and not seen & set(newer), "nothing is shown twice"


def test_what_the_session_played_is_drawn_whatever_the_recording_says(tmp_path, drawings):
    path = tmp_path / "pole.npz"
    columns = {"next_obs": np.zeros((30, 4), dtype=np.float32), "action": np.zeros(30, np.int64)}
    says = TrajectoryFacts(
        env_id="evil.py:Env", env_kwargs={"xml_file": "/etc/passwd"}, model_path="/x.xml", dt_s=0.02
    )
    write_trajectory(path, Trajectory(columns, says))
    asked = ("CartPole-v1", {"max_episode_steps": 30})
    footage = Footage(path, tmp_path, asked)
    footage.overviews()
    assert footage.spec.id == "CartPole-v1"
    assert {(job.env, json.dumps(job.env_args)) for job in drawings} == {
        (asked[0], json.dumps(asked[1]))
    }
    with pytest.raises(TelicError, match="is not believed"):
        Footage(path, tmp_path)
