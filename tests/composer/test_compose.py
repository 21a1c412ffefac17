"""From intents to code: rewards that probe well, judges that are not fooled, honest refusals."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from telic import bench
from telic.composer.compose import BEHAVIOURS, compose
from telic.composer.lexicon import table
from telic.envs import make
from telic.envs.tasks import TASKS
from telic.errors import BadEnvironment, NotUnderstood
from telic.judges.code import judge_here
from telic.judges.verdict import together
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from tests.judges.playing import record

INTENTS = [
    ("HalfCheetah-v5", "run forward fast"),
    ("HalfCheetah-v5", "run backward at 2 m/s"),
    ("HalfCheetah-v5", "jump as high as possible"),
    ("HalfCheetah-v5", "do a backflip and land on your feet"),
    ("HalfCheetah-v5", "do two front flips"),
    ("Ant-v5", "walk slowly to the left without falling"),
    ("Ant-v5", "spin clockwise"),
    ("Hopper-v5", "hop forward smoothly with little energy"),
    ("Walker2d-v5", "walk forward at half speed"),
    ("Humanoid-v5", "walk forward"),
    ("HumanoidStandup-v5", "stand up"),
    ("Swimmer-v5", "swim forward as fast as possible"),
    ("Reacher-v5", "reach the target and hold still"),
]


def spec_of(env):
    made = make(env, num_envs=1)
    made.close()
    return made.spec


def score(made, tmp_path, act):
    """Judge four episodes of a policy."""
    paths = [tmp_path / f"episode_{i}.npz" for i in range(4)]
    record(act, made.env, made.env_args, paths)
    return together(judge_here(made.judge, paths))


SLOW = {
    "run backward at 2 m/s",
    "do two front flips",
    "walk slowly to the left without falling",
    "walk forward",
    "stand up",
}
"""what test_verbs and test_recognised show of the same words in less time"""


@pytest.mark.parametrize(
    ("env", "intent"),
    [
        pytest.param(env, intent, marks=[pytest.mark.slow] * (intent in SLOW))
        for env, intent in INTENTS
    ],
    ids=lambda each: each.replace(" ", "_"),
)
def test_what_is_composed_works_and_is_not_fooled(env, intent, tmp_path):
    made = compose(intent, spec_of(env))
    assert made.not_understood == () and len(made.criteria) >= 2
    batch = make(env, num_envs=8, **made.env_args)
    report = probe(load_reward(made.reward), batch)
    assert report.mode == "batched"
    batch.close()
    width = len(spec_of(env).action_names)
    generator = torch.Generator().manual_seed(0)

    def still(obs):
        return torch.zeros(len(obs), width)

    def random(obs):
        return torch.rand(len(obs), width, generator=generator) * 0.8 - 0.4

    for act in (still, random):
        judged = score(made, tmp_path, act)
        assert judged.unknown == 0 and judged.score is not None, judged.verdicts[0].reason
        assert judged.score < 0.6, f"{act.__name__} behaviour looks like: {intent}"
        assert judged.tags


def test_standing_still_is_recognised(tmp_path):
    made = compose("stand still", spec_of("HalfCheetah-v5"))

    def still(obs):
        return torch.zeros(len(obs), 6)

    assert (score(made, tmp_path, still).score or 0.0) > 0.9


@pytest.mark.parametrize(
    ("env", "intent", "error", "text"),
    [
        ("Hopper-v5", "go to the left", BadEnvironment, "moves along y"),
        ("HalfCheetah-v5", "blorp the fnord", NotUnderstood, "Nothing in"),
        ("Reacher-v5", "blorp the fnord", NotUnderstood, "Reacher-v5 can: reach the target"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(env, intent, error, text):
    with pytest.raises(error, match=text):
        compose(intent, spec_of(env))


def test_words_that_were_not_used_are_told():
    made = compose("run forward purple", spec_of("HalfCheetah-v5"))
    assert made.not_understood == ("purple",)
    assert any("m/s" in each for each in made.doubts)


def test_intents_cannot_break_out_of_their_strings():
    nasty = 'run forward """ + open("/etc/passwd").read() + """ \\'
    made = compose(nasty, spec_of("HalfCheetah-v5"))
    assert load_reward(made.reward).term_names


def test_every_environment_is_calibrated():
    assert set(table("calibration")) == set(TASKS)
    assert len(BEHAVIOURS) >= 10


@pytest.mark.parametrize(
    ("intent", "is_carried"),
    [("walk forward", True), ("walk forward, then raise your left arm", False)],
)
def test_who_is_driven_by_position_keeps_its_arms_quiet_unless_they_are_asked_for(
    intent, is_carried
):
    spec = make("Humanoid-v5", num_envs=1).spec
    driven = spec.model_copy(update={"arguments": {**spec.arguments, "commands": None}})
    assert "carriage" not in compose(intent, spec).reward
    assert ("carriage" in compose(intent, driven).reward) is is_carried


def test_constant_effort_is_no_bad_habit_of_what_drives_on_wheels():
    rover = Path(bench.__file__).parent / "suites" / "robots" / "rover.xml"
    made = compose("drive forward at 1 m/s", make(str(rover), num_envs=1).spec)
    assert set(made.fine) == {"pushes", "pulls"}
    ant = make("Ant-v5", num_envs=1).spec
    assert ant.robot is not None
    endless = replace(ant.robot, limbs=tuple(replace(each, range=None) for each in ant.robot.limbs))
    for legs in (ant, ant.model_copy(update={"robot": endless})):
        assert not compose("walk forward", legs).fine
