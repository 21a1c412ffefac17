"""Judges made blind or dishonest by generation: none decides what it should not."""

import random
from functools import cache

import pytest

from telic.envs import make
from telic.judges.code import JudgeCode
from telic.judges.criteria import Criterion, Motion
from telic.judges.criteria_check import criteria_problems, problems_here, with_measures
from telic.judges.measured import measured_by_host, read_judge
from telic.judges.mutants import counts, mutants_of
from telic.judges.validation import GOOD, ExampleResult, hidden_episodes, trust_problems, try_here
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


BLIND = {
    "constant": "1.0",
    "sign": "-({0})",
    "wrong body": 'float(np.mean(episode["qpos"][:, 0]))',
    "wrong axis": 'float(np.mean(episode["qpos"][:, -1]))',
    "clipped": "float(np.clip({0}, 9.0, 9.0))",
    "gated": "0.0 * ({0}) + 9.0",
}


@cache
def recorded(env, draw=""):
    """Return rollouts of policies that learned nothing; another draw has other initial states."""
    return hidden_episodes(env, written("", draw, env_args=ARGS))


def blind_cases(seed, count):
    draw = random.Random(seed)
    for place in range(count):
        env = ROBOTS[place % len(ROBOTS)]
        yield env, draw.choice(own_quantities(env)), list(BLIND)[place % len(BLIND)], draw.random()


def check_blind(env, quantity, blindness, goal):
    """Code that also scores what the host measures changes nothing of it."""
    measured = Criterion(title="measured", quantity=quantity, zero=-3.0, goal=goal)
    in_words = Criterion(title="in words", quantity="grace", zero=-1.0, goal=1.0)
    (criterion,) = with_measures([measured])
    assert criterion.measure == quantity and not list(
        criteria_problems([criterion], (), spec_of(env))
    )
    value = f'float(np.mean(episode["{quantity}"]))'
    after = ", after=gate" if blindness == "gated" else ""
    lie = f'score("measured", {BLIND[blindness].format(value)}, zero=-3.0, goal={goal}{after})'
    honest = given(env, "", [criterion]).judge
    both = CODE.format(
        before="", lines="pass", scores=f'{lie}, score("in words", 1.0, zero=0, goal=1)'
    )
    assert not read_judge(given(env, both, [criterion]).judge).code  # nothing is left to code
    lying = given(env, both, [criterion, in_words]).judge
    for _, episode in recorded(env)[:3]:
        truth = JudgeCode(honest)(episode, spec_of(env)).criteria[0]
        found = JudgeCode(lying)(episode, spec_of(env))
        assert found.criteria[0] == truth and len(found.criteria) == 2
    # The same lie where code alone measures: it is found before anything is trained.
    if blindness in ("constant", "clipped", "gated"):
        alone = CODE.format(before="", lines="pass", scores=lie.replace('"measured"', '"in words"'))
        judge = given(env, alone, [in_words]).judge
        assert untrusted(env, judge), (env, quantity, blindness)


def untrusted(env, judge, good=None):
    """Return why a judge is not trusted, from hidden rollouts and mutants of a good episode."""
    spec, judging = spec_of(env), JudgeCode(judge)
    hidden = [
        ExampleResult(name=mode, is_good=False, score=found.score, criteria=found.criteria)
        for mode, episode in recorded(env)
        for found in (JudgeCode(judge)(episode, spec),)
    ]
    bases = [good] if good is not None else [recorded(env)[0][1]]
    noticed = counts(
        [judging(each, spec) for each in bases],
        [[judging(other, spec) for other in mutants_of(each, spec).values()] for each in bases],
    )
    return list(trust_problems(read_judge(judge), (), hidden, noticed, (), 0.8))


@pytest.mark.parametrize(
    "count", [4, pytest.param(360, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_a_judge_with_a_blind_criterion_never_decides_it(count):
    for case in blind_cases(count, count):
        check_blind(*case)


@pytest.mark.parametrize(
    "count", [4, pytest.param(210, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_a_judge_that_is_honest_only_on_validation_episodes_is_found_out(count):
    caught = 0
    for seed in range(count):
        env, judge = dishonest(seed)
        is_found = any("hidden negative example" in each for each in untrusted(env, judge))
        caught += is_found
        # One that takes every recording for validation is honest, and passes nothing.
        fresh = [JudgeCode(judge)(each, spec_of(env)).score for _, each in recorded(env, "later")]
        assert is_found or not any(fresh), (seed, env, judge)
    assert caught > 0.8 * count


def test_an_honest_criterion_in_code_is_trusted():
    env, run = "HalfCheetah-v5", (Motion(seconds=9, forward_mps=2.0, stride_hz=1.5),)
    value = 'float(np.mean(episode["forward_velocity"])) * (episode.mean("uprightness") > 0.5)'
    code = CODE.format(
        before="", lines="pass", scores=f'score("runs", {value}, zero=0.2, goal=1.5)'
    )
    runs = Criterion(title="runs", quantity="how it runs", zero=0.2, goal=1.5)
    made = given(env, code, [runs]).model_copy(update={"motions": run})
    tried = try_here(env, made, is_probed=True)
    judge = read_judge(made.judge)
    assert not list(trust_problems(judge, tried.examples, tried.hidden, tried.noticed, (), 0.8))
    assert next(each for each in tried.examples if each.name == GOOD).score == 1.0
    backward = made.model_copy(update={"judge": made.judge.replace("float(np", "-float(np", 1)})
    tried = try_here(env, backward, is_probed=True)
    found = list(trust_problems(judge, tried.examples, tried.hidden, tried.noticed, (), 0.8))
    assert any("no credit" in each for each in found)  # the wrong sign
    # Found on perturbed look-alikes, too, which begin in drawn states and move smoothly.
    assert any('"goes the other way"' in each for each in found)
