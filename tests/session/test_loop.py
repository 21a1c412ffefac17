"""A whole session on a tiny budget: every step recorded, resumable, and judged honestly."""

import pytest

import telic
from telic.composer.compose import Composition, Criterion
from telic.errors import ConfigError, RewardError
from telic.judges.leaf import leaf
from telic.judges.verdict import judged, together, unknown
from telic.session import loop
from telic.session.api import run
from telic.session.folder import SessionFolder
from telic.session.loop import _decide
from telic.session.records import Candidate, MemberScore, SessionConfig
from telic.session.revise import revise
from telic.session.weights import weights_in, with_weights
from telic.storage.files import read_json
from telic.training.run import Run
from tests.training.small import SPEED

JUDGE = """
from telic import leaf

def judge(episode):
    return [leaf("lasts", episode.seconds, zero=0.0, goal={goal}, unit="s", tag="too_slow")]
"""
SMALL = {"seeds": (1, 2, 3), "episodes": 4, "iterations": 2}


def composition(goal):
    return Composition(
        intent="move", env="HalfCheetah-v5", criteria=(Criterion(title="lasts", how="leaf"),),
        reward=SPEED, judge=JUDGE.format(goal=goal), env_args={"max_episode_steps": 20}, steps=256,
        doubts=(), not_understood=("gracefully",),
    )  # fmt: skip


@pytest.fixture
def author(monkeypatch):
    """Let the author be asked once, and count it."""
    asked = []

    def use(goal):
        def compose(intent, spec):
            asked.append(intent)
            return composition(goal)

        monkeypatch.setattr(loop, "compose", compose)
        return asked

    return use


def test_a_session_passes_and_leaves_a_report(author, tmp_path):
    author(goal=1.0)
    events = []
    session = run("move", runs_dir=tmp_path, on_event=events.append, **SMALL)
    assert session.passed and session.summary.score == pytest.approx(1.0)
    assert session.summary.iterations == 1
    report = (session.path / "report.md").read_text()
    assert "passed" in report and "not understood: gracefully" in report
    assert session.policy()(telic.make("HalfCheetah-v5", num_envs=2).reset()).shape == (2, 6)
    kinds = [each["event"] for each in events]
    assert (
        kinds.index("session.authored") < kinds.index("train.start") < kinds.index("session.judged")
    )


def test_a_session_that_cannot_pass_revises_and_says_so(author, tmp_path):
    author(goal=50.0)
    session = run("move", runs_dir=tmp_path, **SMALL)
    assert session.summary.outcome == "not_passed" and session.summary.iterations == 2
    second = read_json(SessionFolder(session.path).iteration(2).candidate)
    assert second["parent"] == 1 and len(second["weights"]) == 2 and second["steps"] > 256
    members = read_json(SessionFolder(session.path).iteration(2).judgment)["members"]
    assert sorted({each["variant"] for each in members}) == [0, 1] and len(members) == 6


def test_the_same_request_goes_on_and_asks_nobody_twice(author, tmp_path):
    asked = author(goal=1.0)
    seen = []
    request = {**SMALL, "steps": 16_384, "runs_dir": tmp_path}
    stopped = run(
        "move", on_event=seen.append,
        should_stop=lambda: any(each["event"] == "train.start" for each in seen), **request,
    )  # fmt: skip
    assert stopped.summary.outcome == "stopped"
    again = run("move", **request)
    assert again.path == stopped.path and again.passed and asked == ["move"]
    other = run("move", **{**request, "steps": 256})
    assert other.path != again.path  # another request


def score(variant, seed, *scores):
    verdicts = [
        unknown("code", "no") if each is None
        else judged([leaf("x", each, zero=0.0, goal=1.0, tag="too_slow")], each)
        for each in scores
    ]  # fmt: skip
    return MemberScore(
        member=f"m{variant}_seed_{seed}", variant=variant, seed=seed, step=1,
        judgement=together(verdicts),
    )  # fmt: skip


def decide(*scores):
    config = SessionConfig(intent="x", env="y")
    candidate = Candidate(reward="", env_args={}, steps=1)
    return _decide(config, 1, candidate, list(scores), Run("p", {"training_time_s": 1.0}), 0.1)


def test_one_lucky_seed_does_not_pass():
    lucky = decide(
        score(0, 1, 1, 1, 1, 1), score(0, 2, 0.3, 0.4, 0.2, 0.3), score(0, 3, 0, 0, 0, 0)
    )
    assert not lucky.passed and lucky.best == "m0_seed_1"
    assert decide(
        score(0, 1, 1, 1, 1, 1), score(0, 2, 0.9, 1, 0.9, 1), score(0, 3, 0, 0, 0, 0)
    ).passed


def test_a_wide_interval_does_not_pass():
    shaky = [score(0, seed, 1.0, 1.0, 1.0, 0.2) for seed in (1, 2, 3)]
    assert not decide(*shaky).passed


def test_what_could_not_be_judged_is_unknown():
    nobody = decide(*[score(0, seed, None, None) for seed in (1, 2, 3)])
    assert not nobody.passed and nobody.score is None


def test_the_variant_that_proves_most_is_chosen():
    chosen = decide(
        score(0, 1, 0.5, 0.5), score(0, 2, 0.5, 0.5), score(1, 1, 0.9, 0.9), score(1, 2, 0.9, 0.9)
    )
    assert chosen.variant == 1


def test_a_revision_raises_what_is_lacking_and_keeps_the_rest():
    latest = decide(score(0, 1, 0.1, 0.2), score(0, 2, 0.1, 0.2), score(0, 3, 0.1, 0.1))
    last = Candidate(reward=SPEED, env_args={}, steps=1000)
    made = revise([latest], last, {"speed": 1.0, "control": 0.1})
    assert made.weights == ({"speed": 1.0, "control": 0.1}, {"speed": 2.0, "control": 0.05})
    assert made.steps == 1600 and made.parent == 1


def test_weights_are_read_and_written_without_running_the_file():
    assert weights_in(SPEED) == {"speed": 1.0, "control": 0.1}
    text = with_weights(SPEED, {"speed": 2.0, "control": 0.5})
    assert weights_in(text) == {"speed": 2.0, "control": 0.5}
    assert text == SPEED.replace('{"speed": 1.0, "control": 0.1}', '{"speed": 2, "control": 0.5}')
    long = SPEED.replace('{"speed": 1.0, "control": 0.1}', '{\n        "speed": 1.0,\n    }')
    assert weights_in(with_weights(long, {"speed": 3.0})) == {"speed": 3.0}
    assert weights_in("raise SystemExit") == {}
    with pytest.raises(RewardError, match="plain numbers"):
        weights_in('class R:\n    weights = {"speed": open("x")}\n')


def test_an_impossible_request_starts_nothing(tmp_path):
    with pytest.raises(ConfigError):
        run("", runs_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
