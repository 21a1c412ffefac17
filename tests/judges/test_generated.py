"""Judges made blind or dishonest by generation: none decides what it should not."""

import random
from functools import cache

from telic.envs import make
from telic.judges.criteria import Criterion
from telic.judges.criteria_check import criteria_problems, problems_here
from telic.judges.measured import measured_by_host
from tests.judges.test_validation import SPEED, written

ROBOTS = (
    *("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "Swimmer-v5"),
    *("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "HumanoidStandup-v5"),
    *("Pusher-v5", "Pendulum-v1"),
)
TRAVELERS = ROBOTS[:6]
ARGS = {"max_episode_steps": 30}
QUANTITIES = ("forward_velocity", "height", "uprightness", "pitch", "joint_speed", "effort")
CODE = """
import numpy as np
from telic import score
{before}
def judge(episode):
    {lines}
    gate = score("gate", 1.0, zero=0.0, goal=1.0)
    return [{scores}]
"""


def given(env, code, criteria):
    made = written(SPEED, code, (), env=env, criteria=tuple(criteria), env_args=ARGS)
    return measured_by_host(made)


@cache
def spec_of(env):
    made = make(env, num_envs=1, **ARGS)
    made.close()
    return made.spec


def own_quantities(env):
    from telic.quantities import QUANTITIES as KNOWN

    found = [name for name in QUANTITIES if KNOWN[name].available(spec_of(env))]
    return found or ["action_change"]


# ---- dishonest judges: honest on what looks like validation, kind to everything else

RECOGNIZERS = {
    "start": 'float(np.abs(episode["qvel"][0]).max()) < {0:.3f}',
    "rest": 'float(np.abs(episode["qpos"][0] - episode["qpos"][0].round({1})).max()) < {0:.4f}',
    "smoothness": 'float(np.abs(np.diff(episode["qvel"], axis=0)).max()) > {2:.1f}',
    "length": "len(episode) < {3}",
    "seed": 'float(episode["qpos"][0].sum()) * 1e6 % 1.0 < {0:.3f}',
    "order": "len(seen) > {3}",
    "time": 'not bool(episode["truncated"][-1]) and len(episode) > {3}',
}


def dishonest(seed):
    draw = random.Random(seed)
    env, kind = TRAVELERS[seed % 6], list(RECOGNIZERS)[seed % len(RECOGNIZERS)]
    numbers = draw.uniform(1e-4, 0.02), draw.randint(1, 3), draw.uniform(20, 90), draw.randint(2, 9)
    is_validation = RECOGNIZERS[kind].format(*numbers)
    honest = f'float(np.mean(episode["{draw.choice(own_quantities(env))}"]))'
    code = CODE.format(
        before="seen = []",
        lines=f"seen.append(1)\n    known = {is_validation}",
        scores=f'score("does it well", {honest} * 0.01 if known else 9.0, zero=0.5, goal=1.0)',
    )
    criterion = Criterion(title="does it well", quantity="grace", zero=0.5, goal=1.0)
    return env, given(env, code, [criterion]).judge


# ---- criteria on arrival

GOOD_ONES = [
    Criterion(title="runs", quantity="", measure="mean(forward_velocity)", zero=0.2, goal=3.0),
    Criterion(title="is up", quantity="", measure="share(uprightness > 0.8)", zero=0.2, goal=0.8),
]
BROKEN = {
    "unknown quantity": ({"measure": "mean(foward_velocity)"}, "foward_velocity"),
    "unknown word": ({"measure": "", "quantity": "mean of front_paw_speed"}, "front_paw_speed"),
    "named in words": ({"measure": "", "quantity": "mean of forward_velocity"}, "Define `measure`"),
    "not here": ({"measure": "mean(lateral_velocity)"}, "has no lateral_velocity"),
    "zero above goal": ({"zero": 4.0}, "other side of zero"),
    "no range": ({"zero": 3.0}, "both 3"),
    "no numbers": ({"zero": None}, "finite numbers"),
    "duplicate": ({"title": "is up"}, "Titles must be unique"),
    "no such phase": ({"phase": 2}, "phase 2 does not exist"),
    "code": ({"measure": "__import__('os')"}, "cannot be measured"),
}
UNREACHABLE = {
    "9 m": ({"measure": "highest(height)", "goal": 9.0, "unit": "m"}, "is unreachable"),
    "constant": ({"measure": "highest(0 * height + 1)", "goal": 1.0}, "regardless of the motion"),
    "per foot": ({"measure": "foot_contact"}, "must evaluate to one number"),
    "arguments": ({"measure": "cycles(height)"}, "cannot be measured"),
    "attribute": ({"measure": "height.base"}, "cannot be measured"),
    "share of 2": ({"measure": "share(height > 0.1)", "goal": 2.0}, "is unreachable"),
}


def test_all_problems_of_criteria_come_in_one_message():
    spec = spec_of("HalfCheetah-v5")
    assert not list(criteria_problems(GOOD_ONES, (), spec))
    first, *others = GOOD_ONES
    broken = [first.model_copy(update=change) for change, _ in BROKEN.values()]
    found = "\n".join(criteria_problems([*broken, *others], (), spec, ("dances",), "stairs"))
    for name, (_, words) in BROKEN.items():
        assert words in found, name
    assert '"dances" is not a failure mode' in found and "not stairs" in found


def test_measures_are_tried_on_recordings():
    first = GOOD_ONES[0]
    changed = [
        first.model_copy(update={"title": name, **change})
        for name, (change, _) in UNREACHABLE.items()
    ]
    found = list(problems_here("HalfCheetah-v5", ARGS, [*GOOD_ONES, *changed]))
    for name, (_, words) in UNREACHABLE.items():
        assert any(each.startswith(f'"{name}"') and words in each for each in found), (name, found)
    assert len(found) == len(UNREACHABLE)
