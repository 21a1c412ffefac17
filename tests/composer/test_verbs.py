"""Every verb on every environment where it makes sense: the code is accepted, and it runs."""

from functools import lru_cache

import pytest
import torch

from telic.composer.compose import BEHAVIORS, compose
from telic.composer.lexicon import word_table
from telic.envs import make
from telic.envs.tasks import TASKS
from telic.errors import BadEnvironment
from telic.judges.code import OFFERED, JudgeCode
from telic.judges.failure_modes import failure_modes
from telic.judges.validation import try_here
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.sandbox.source import check_source, compile_source
from tests.composer.specs import spec_of

ASKED = {
    "go": (
        "run forward fast",
        "walk 2 m",
        "walk forward and to the left",
        "walk in place",
        "walk four steps",
        "limp forward",
        "march with high knees",
    ),
    "jump": ("jump three times", "jump forward 1 m"),
    "hop": ("hop forward", "hop in place five times"),
    "flip": ("do a backflip",),
    "roll": ("roll over", "do a cartwheel"),
    "turn": ("turn 180 degrees left", "spin twice clockwise", "spin"),
    "circle": ("walk in a circle",),
    "stand": ("stand still for 3 seconds", "stand on the rear legs", "do a handstand"),
    "sit": ("crouch", "squat three times", "sit", "deep squat"),
    "lie": ("lie down",),
    "stand_up": ("stand up",),
    "reach": ("reach the target",),
    "balance": ("balance",),
    "swing": ("wave", "swing up the pole"),
    "lift": ("lift the front left leg", "raise your left arm", "lift a foot"),
    "kick": ("kick twice",),
    "stop": ("stop",),
    "obey": ("obey velocity commands",),
    "lean": ("lean forward", "lean to the left", "bow twice"),
    "avoid": ("keep away from the target",),
}
MANNERS = """
Ant: run forward steadily, gently and symmetrically with alternating legs
Ant: run forward naturally while keeping the torso level
Ant: run in a straight line without jumping or turning
Ant: jump explosively
Ant: stand without moving more than 1 m
Ant: turn left without moving forward
Ant: walk without slipping
Ant: stand on two legs
Ant: jump, then run forward without shaking or falling
HalfCheetah: lie down, then stand up, then run forward
HalfCheetah: run while keeping the torso below 0.5 m
HalfCheetah: run on the hind legs
Humanoid: walk upright without using your hands
Humanoid: walk without leaning over
Humanoid: stand without touching the ground with your left hand
Humanoid: walk forward with the torso 1.2 m high
Humanoid: stand on one leg
Humanoid: lie on your back
Humanoid: lie on your belly
Humanoid: lie on your side
Humanoid: lie on your left side
Humanoid: lie on your right side
Humanoid: do a headstand
Humanoid: hop on the right foot five times
Humanoid: run low
Humanoid: crawl on your hands and knees
Humanoid: stand tall
Humanoid: hold a plank
Hopper: hop like a kangaroo
Walker2d: walk with little energy and small movements without falling or shaking
""".strip().splitlines()
ALL = [(env, text) for env in TASKS for texts in ASKED.values() for text in texts] + [
    (f"{line.partition(': ')[0]}-v5", line.partition(": ")[2]) for line in MANNERS
]


@lru_cache
def modes(env):
    return failure_modes(env, {"max_episode_steps": 60})


def test_every_verb_has_a_behavior_and_every_environment_is_calibrated():
    assert set(BEHAVIORS) == {*word_table("acts")} == set(ASKED)
    assert set(word_table("calibration")) == set(TASKS)


# The large robots take half a minute, and show what the small ones show.
MIDDLE = ("HalfCheetah-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Swimmer-v5")
LARGE = ("Ant-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5", "Walker2d-v5")


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(
            each,
            marks=[pytest.mark.long] * (each in LARGE) + [pytest.mark.slow] * (each in MIDDLE),
        )
        for each in TASKS
    ],
)
def test_what_is_composed_is_accepted_and_runs(env):
    for text in [each for name, each in ALL if name == env]:
        try:
            made = compose(text, spec_of(env))
        except BadEnvironment as error:
            assert f"{env} cannot" in error.message and f"{env} can: " in str(error), text
            continue
        assert made == compose(text, spec_of(env)), "the same words give the same files"
        assert made.not_understood == () and made.criteria, text
        check_source(made.reward, "reward_fn.py")
        compile_source(made.judge, "judge_fn.py", extra_modules=OFFERED)
        batch = make(env, num_envs=4, **{**made.env_args, "max_episode_steps": 12})
        report = probe(load_reward(made.reward), batch, transitions=32)
        batch.close()
        assert report.mode == "batched", text
        judge, examples = JudgeCode(made.judge), modes(env)
        for name in ("flails", "ends at once"):
            verdict = judge(examples.trajectory(name), examples.spec)
            assert verdict.score is not None, (text, name, verdict.reason)
            titles = [each.title.partition(" (within")[0] for each in verdict.criteria]
            assert titles == [each.title for each in made.criteria], text


def test_memory_is_reset_with_an_episode():
    made = compose("jump twice, then turn 90 degrees left", spec_of("Ant-v5"))
    env = make("Ant-v5", num_envs=3, **made.env_args)
    reward = load_reward(made.reward)
    probe(reward, env, transitions=32)
    reward.start(3, "cpu")
    before = reward.memory().clone()
    obs = env.reset()
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        action = torch.rand(3, 8, generator=generator) * 2 - 1
        step = env.step(action)
        assert reward(obs, action, step.final_obs, step.info).total.shape == (3,)
        obs = step.obs
    assert not torch.equal(reward.memory(), before)
    reward.reset(torch.tensor([True, False, True]))
    assert torch.equal(reward.memory()[::2], before[::2])
    assert not torch.equal(reward.memory()[1], before[1])


def test_intents_cannot_break_out_of_their_strings():
    nasty = 'run forward """ + open("/etc/passwd").read() + """ \\'
    made = compose(nasty, spec_of("HalfCheetah-v5"))
    assert load_reward(made.reward).term_names


SLOW = pytest.mark.slow
CASES = [
    ("HalfCheetah-v5", "jump once"),
    *(
        pytest.param(env, intent, marks=SLOW)
        for env, intents in {
            "HalfCheetah-v5": ("run forward fast", "do a backflip", "walk backward, then stop"),
            "Hopper-v5": ("hop forward", "jump once, then stand still", "jump every second"),
            "Walker2d-v5": ("walk forward for two seconds, then run", "stand on one leg"),
            "Ant-v5": ("turn left on the spot", "trot forward at 0.5 m/s"),
        }.items()
        for intent in intents
    ),
]
QUIET = {"body", "level"}
"""costs of what neither puppets nor bad habits happen to do"""


@pytest.mark.parametrize(("env", "intent"), CASES)
def test_every_term_pays_or_charges_in_some_example(env, intent):
    made = compose(intent, make(env, num_envs=1).spec)
    short = {**made.env_args, "max_episode_steps": min(250, made.env_args["max_episode_steps"])}
    results = try_here(env, made.model_copy(update={"env_args": short})).examples
    names = results[0].terms
    silent = {name for name in names if not any(each.terms.get(name) for each in results)}
    assert {name.rpartition("_")[0] or name for name in silent} <= QUIET, silent
