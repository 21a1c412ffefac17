"""A whole session on a tiny budget: every step recorded, resumable, and judged honestly."""

import threading

import pytest

import telic
from telic.authors import composer
from telic.authors.candidate import MemberScore, RewardCandidate, weights_in, with_weights
from telic.authors.request import SessionConfig
from telic.cli._results import show_session
from telic.errors import RewardError
from telic.judges.criteria import Composition, Criterion, leaf
from telic.judges.verdict import judged, together, unknown
from telic.rendering.job import Rendering
from telic.session import _report_sections as pictures
from telic.session import certificate, loop
from telic.session._judgment import verdict_on as decide_on
from telic.session.loop import run_session
from telic.session.robustness import read_card
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import read_trajectory
from telic.storage.workspace import Artifact
from telic.web._files import files_of
from tests.event_list import EventList
from tests.session.quick import PASSING
from tests.training.small import SPEED

JUDGE = """
from telic import leaf

def judge(episode):
    return [leaf("lasts", episode.seconds, zero=0.0, goal={goal}, unit="s", tag="too_slow")]
"""
SMALL = {"seeds": (1, 2, 3), "episodes": 4, "iterations": 2}


def composition(goal):
    return Composition(
        intent="move",
        env="HalfCheetah-v5",
        criteria=(Criterion(title="lasts", quantity="s"),),
        reward=SPEED,
        judge=JUDGE.format(goal=goal),
        env_args={"max_episode_steps": 20},
        steps=256,
        doubts=(),
        not_understood=("gracefully",),
    )


@pytest.fixture
def author(monkeypatch):
    """Let the author be asked once, and count it."""
    asked = []

    def use(goal):
        def compose(intent, spec, criteria=None, reference=None):
            asked.append(intent)
            return composition(goal)

        monkeypatch.setattr(composer, "compose", compose)
        return asked

    return use


def test_a_judge_that_takes_anything_leaves_a_session_unproven(
    author, tmp_path, monkeypatch, capsys
):
    author(goal=1.0)
    events = EventList()
    session = run_session("move", runs_dir=tmp_path, on_event=events, **{**SMALL, "seeds": (1, 2)})
    assert session.summary.outcome == "unproven" and session.summary.score == pytest.approx(1.0)
    assert session.summary.iterations == 1
    report = (session.path / "report.md").read_text()
    assert "Unproven" in report and "not judged: “gracefully”" in report
    show_session(session)
    for text, words in (
        (report, "without a confidence bound"),
        (capsys.readouterr().out, "not proven"),
    ):
        assert words in text and "% confidence" not in text
    assert session.policy()(telic.make("HalfCheetah-v5", num_envs=2).reset()).shape == (2, 6)
    monkeypatch.setattr(loop, "load_policy", lambda *which: which)
    judged_steps = {
        each["member"]: each["step"]
        for each in read_json(SessionFolder(session.path).iteration(1).judgment)["members"]
    }
    best = session.summary.best_member  # what is handed out is what was judged, not what paid most
    assert session.policy() == (session.run / best, judged_steps[best])
    kinds = [each["event"] for each in events]
    order = ["session.asked", "session.tried", "train.start", "session.judged", "session.spent"]
    assert sorted(order, key=kinds.index) == order
    trial = read_json(SessionFolder(session.path).trial)
    assert "does nothing" in {each["name"] for each in trial["examples"]}
    files = files_of(Artifact("session", session.path)).values()
    shown = [each for each in files if each.file.label == "untrained network"]
    assert [each.file.step for each in shown] == [0]
    episode = read_trajectory(shown[0].path)  # shown before the first evaluation
    assert len(episode.columns["action"]) == 1000 and episode.columns["action"].std() > 0.1
    card = read_card(SessionFolder(session.path))  # really played and judged, if only for a second
    assert [row.episodes for row in card.rows] == [16] * 8 and "one-step action delay" in report


@pytest.mark.slow
def test_a_session_that_cannot_pass_revises_and_says_so(author, home, tmp_path):
    author(goal=50.0)
    session = run_session("move", runs_dir=tmp_path, **SMALL)
    assert session.summary.outcome == "not_passed" and session.summary.iterations == 2
    second = read_json(SessionFolder(session.path).iteration(2).candidate)
    assert second["parent"] == 1 and len(second["variants"]) == 3 and second["steps"] > 256
    files = SessionFolder(session.path).iteration(2)
    judged_second = read_json(files.judgment)
    assert len(judged_second["members"]) == 3 and len(judged_second["trials"]) == 9
    kept = read_json(files.selection)["kept"]
    assert {each["variant"] for each in judged_second["members"]} == {kept}
    assert judged_second["steps"] == sum(
        each["step"] for each in (*judged_second["members"], *judged_second["trials"])
    )


def score(variant, seed, *scores, times=16):
    verdicts = [
        unknown("code", "no")
        if each is None
        else judged([leaf("x", each, zero=0.0, goal=1.0, tag="too_slow")], each)
        for each in scores
    ]
    return MemberScore(
        member=f"m{variant}_seed_{seed}",
        variant=variant,
        seed=seed,
        step=1,
        judgment=together(verdicts * times),
    )


def decide(*scores):
    config = SessionConfig(intent="x", env="y")
    candidate = RewardCandidate(reward="", env_args={}, steps=1)
    return decide_on(config, 1, candidate, list(scores))


def test_one_lucky_seed_does_not_pass():
    lucky = decide(
        score(0, 1, 1, 1, 1, 1), score(0, 2, 0.3, 0.4, 0.2, 0.3), score(0, 3, 0, 0, 0, 0)
    )
    assert not lucky.passed and lucky.best == "m0_seed_1"
    assert decide(
        score(0, 1, 1, 1, 1, 1), score(0, 2, 0.9, 1, 0.9, 1), score(0, 3, 0, 0, 0, 0)
    ).passed


def test_unjudged_episodes_prove_nothing():
    """Else a judge that fails on bad episodes alone would let every policy pass."""
    few = decide(*[score(0, seed, 1, 1, *[None] * 10) for seed in (1, 2, 3)])
    assert not few.passed and few.score == 1.0 and few.members[0].low < 2 / 12
    assert decide(*[score(0, seed, *[1] * 11, None) for seed in (1, 2, 3)]).passed


def test_the_best_policy_is_chosen_on_other_episodes_than_it_is_judged_on():
    lucky, better = score(0, 1, 1.0, times=64), score(0, 2, 0.98, times=64)
    chosen = [
        lucky.model_copy(update={"choosing": 0.9}),
        better.model_copy(update={"choosing": 0.95}),
        score(0, 3, 0.2).model_copy(update={"choosing": 1.0}),  # does not pass
    ]
    assert decide(*chosen).best == "m0_seed_2"


def test_weights_are_read_and_written_without_running_the_file():
    assert weights_in(SPEED) == {"speed": 1.0, "control": 0.1}
    text = with_weights(SPEED, {"speed": 2.0, "control": 0.5})
    assert weights_in(text) == {"speed": 2.0, "control": 0.5}
    assert text == SPEED.replace('{"speed": 1.0, "control": 0.1}', '{"speed": 2, "control": 0.5}')
    long = SPEED.replace('{"speed": 1.0, "control": 0.1}', '{\n        "speed": 1.0,\n    }')
    assert weights_in(with_weights(long, {"speed": 3.0})) == {"speed": 3.0}
    assert weights_in("raise SystemExit") == {}
    with pytest.raises(RewardError, match="numeric literals"):
        weights_in('class R:\n    weights = {"speed": open("x")}\n')


def test_a_pass_is_drawn_once_and_meanwhile_certified(asking, home):
    begun, drawn = threading.Event(), []

    def render(jobs):
        begun.set()
        drawn.extend(job.output.name for job in jobs)
        for job in jobs:
            job.output.parent.mkdir(parents=True, exist_ok=True)
            job.output.write_bytes(b"picture")
        return [Rendering(output=job.output, backend="osmesa") for job in jobs]

    class Waiting(certificate.Certifier):
        def certificate(self):
            assert begun.wait(240), "the pictures wait for the certificate"
            return super().certificate()

    home.setattr(pictures, "render", render)
    home.setattr(loop, "Certifier", Waiting)
    session, _ = asking.run(PASSING)
    assert "<video" in (session.path / "report.html").read_text()
    assert sorted(drawn) == ["median.mp4", *(f"strip_{x}.png" for x in ("median", "p10", "p90"))]


@pytest.mark.slow
def test_a_session_trains_its_policies_on_all_devices(asking):
    session, _ = asking.run(PASSING, devices=("cpu", "cpu"), until="train.start")
    config = read_json(SessionFolder(session.path).config)
    assert config["devices"] == ["cpu", "cpu"] and config["device"] == "cpu"
    manifest = read_json(next(session.path.glob("iter_1/train*/manifest.json")))
    assert [len(part) for part in manifest["processes"]] == [1, 1]
