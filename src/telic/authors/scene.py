"""What prompts show: the intent, the session's own environment, criteria and examples.

All roles see the same facts, of the environment as it is configured here and not as it is by
default: how long an episode is, how it ends, how often an action is chosen, what the policy does
not see, which angles are not wrapped, what is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from telic.core.text import few_digits
from telic.envs import make
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec, JointSpec, Robot
from telic.envs.tasks import RULES
from telic.judges.criteria import Criterion
from telic.judges.validation import ExampleResult, Trial
from telic.quantities.reference import QuantityDescription, describe_quantities
from telic.robots.terrain import (
    FIELD_M,
    STAIRS_M,
    TERRAINS,
    ground_in,
    hardest_step,
    steepest,
    steps_of,
)
from telic.storage.trajectories import RECORDED

_A_HAIR = 0.1
"""distance from the score that passes within which an example is said to be near it"""
_ALWAYS_RECORDED = ("obs", "next_obs", "action", "terminated", "truncated")
_ENDS = "terminate_when_unhealthy"
_TURN = 2 * math.pi
_ABOUT = {"x": "roll to the right", "y": "front flip", "z": "turn to the left"}


def scene(intent: str, spec: EnvSpec) -> dict[str, str]:
    """Return what every prompt may show: the intent, the robot, what can be measured on it."""
    return {
        "intent": intent,
        "environment": f"{describe_text(spec)}\n{own_facts(spec)}",
        "quantities": "\n".join(map(_quantity, describe_quantities(spec))),
    }


def _quantity(row: QuantityDescription) -> str:
    """Say what a quantity is, how it is called, and the size of what it gives and remembers."""
    shape = "" if row.shape == "(N,)" else f" of shape {row.shape}"
    memory = "" if row.memory is None else f" with a memory of {row.memory}"
    return f"- `{row.name}` [{row.unit}], {row.kind}{shape}{memory}, `{row.usage}`: {row.formula}"


def own_scene(intent: str, env: str, env_args: dict[str, Any]) -> dict[str, str]:
    """Return the scene of an environment as it is made with these arguments."""
    made = make(env, num_envs=1, **env_args)
    made.close()
    return scene(intent, made.spec)


def own_facts(spec: EnvSpec) -> str:
    """Return what is true of the environment as it is configured, as a section of a prompt."""
    facts = [_length(spec), _end(spec), *_ground(spec)]
    facts += [*_unseen(spec), *_unwrapped(spec), *_recorded(spec)]
    return "\n".join(["## As it is configured here", "", *(f"- {fact}" for fact in facts)])


def _length(spec: EnvSpec) -> str:
    limit = spec.max_episode_steps
    if spec.dt_s is None:
        pace = "There is no clock: times are counted in steps."
    else:
        pace = f"An action is chosen every {spec.dt_s:g} s ({1 / spec.dt_s:.4g} times a second)."
    if limit is None:
        return f"{pace} An episode has no time limit; recordings are cut."
    seconds = "" if spec.dt_s is None else f", {limit * spec.dt_s:g} s"
    return f"{pace} An episode has at most {limit} steps{seconds}."


def _end(spec: EnvSpec) -> str:
    ends = spec.arguments.get(_ENDS)
    rules = RULES.get(spec.id)
    is_free = rules is None and spec.arguments.get("healthy_z_range", ()) is None
    if ends is False or is_free or (rules is not None and rules.ends == "never"):
        return "An episode never ends early, whatever the robot does: falling costs no time."
    if rules is None and ends is None:
        return "When an episode ends early, the environment itself decides."
    why = "when it is unhealthy" if rules is None else rules.ends.rpartition("=False: ")[2]
    ranges = [
        f"{name} = {value}"
        for name, value in spec.arguments.items()
        if name.startswith("healthy_") and name.endswith("_range")
    ]
    here = f" (here {', '.join(ranges)})" if ranges else ""
    return f"An episode ends early: {why}{here}. What is not lived through cannot be earned."


def _ground(spec: EnvSpec) -> Iterator[str]:
    """Say what a robot goes over, where its environment has a choice."""
    if "terrain" not in spec.arguments:
        return
    ground = ground_in(spec.arguments)
    if ground.kind == "flat":
        kinds = ", ".join(f"`{kind}`" for kind in TERRAINS)
        yield f"The ground is flat. Where the intent needs another, it can be {kinds}."
        return
    tall = spec.robot.rest_height if spec.robot and spec.robot.rest_height else 0.3
    sizes = {
        "stairs": f"{steps_of(tall)} steps, each up to {hardest_step(ground.hardest, tall):.2g} m "
        "high (`ground_step`)",
        "slopes": f"a slope {STAIRS_M:g} m long, up to {math.degrees(steepest(ground.hardest)):.0f}"
        " degrees steep (`ground_step`: its rise for each metre)",
        "rough": "lumps (`ground_step`: the highest)",
    }
    start = "at the foot, with the way up ahead along +x"
    if spec.arguments.get("terrain_start") != "foot":
        start = "in the middle of a field, its highest place"
    yield (
        f"The ground is `{ground.kind}`: fields of {FIELD_M:g} m side by side, from easy to hard, "
        f"each with {sizes[ground.kind]}. An episode begins {start}. `ground_height` is that of "
        "the ground below the torso, 0 at the foot of every field; `height` is that of the torso "
        "above it. The policy sees nothing of the ground. Judged is ground drawn anew."
    )


def _unseen(spec: EnvSpec) -> Iterator[str]:
    """Say where the robot is that its policy cannot know."""
    if spec.robot is None or not any(name in spec.obs_names for name in spec.joint_names):
        return  # the columns of this observation have no known names
    places = [
        f"{slide.axis} (`qpos[{slide.qpos}]`)"
        for slide in spec.robot.root.slides
        if _observed_as(spec, slide.qpos) not in spec.obs_names
    ]
    if places:
        yield (
            f"The policy does not observe {' and '.join(places)}: it cannot know where it is along "
            "there, only how fast it moves. Reward and judge can measure it."
        )


def _observed_as(spec: EnvSpec, qpos: int) -> str:
    """Return the name that a coordinate of the root has among the observations."""
    joint = max(
        (joint for joint in spec.joints if joint.qpos_address <= qpos),
        key=lambda joint: joint.qpos_address,
    )
    return (
        joint.name if joint.kind != "free" else f"{joint.name}_{'xyz'[qpos - joint.qpos_address]}"
    )


def _unwrapped(spec: EnvSpec) -> Iterator[str]:
    """Say which angles go on counting beyond a turn."""
    robot = spec.robot
    hinges = [joint for joint in spec.joints if joint.kind == "hinge" and joint.low is None]
    for joint in hinges:
        yield (
            f"`{joint.name}` (`qpos[{joint.qpos_address}]`) is an angle that is not wrapped: it "
            f"goes on beyond ±{math.pi:.2f}{_turn_of(joint, robot)}."
        )
    if robot is not None and robot.root.quaternion is not None:
        yield (
            "The torso's orientation is a quaternion, w first; `q` and `-q` are the same "
            "orientation. `roll`, `pitch` and `yaw` are wrapped; what ends in `_rotation` or "
            "`_turns` adds up over the episode and is not."
        )


def _turn_of(joint: JointSpec, robot: Robot | None) -> str:
    hinge = None if robot is None else robot.root.hinge
    if hinge is None or hinge.qpos != joint.qpos_address:
        return ""
    return f", by {hinge.sign * _TURN:+.2f} for every {_ABOUT[hinge.axis]}"


def _recorded(spec: EnvSpec) -> Iterator[str]:
    kept = [name for name in RECORDED if name in spec.info_keys]
    # An episode gives the size of the forces it recorded, as a step does.
    kept += ["contacts"] if "cfrc_ext" in kept and "contacts" in spec.info_keys else []
    columns = " ".join((*kept, *_ALWAYS_RECORDED))
    known = {*kept, *_ALWAYS_RECORDED, "dt", "episode_start"}
    known |= {row.name for row in describe_quantities(spec)}
    others = sorted(set(spec.info_keys) - known)
    yield (
        f"Recorded for the judge, after every step: `{columns}`, and with them every quantity in "
        "the list."
    )
    if others:
        words = " ".join(others)
        yield f"Seen by a reward and not recorded, so that a judge cannot use it: `{words}`."


# ------------------------------------------------------------------ criteria, examples, complaints


def problem_text(problems: Sequence[str], source: str) -> str:
    """Return the part of a prompt that sends a file back to its author."""
    points = "\n".join(f"- {problem}" for problem in problems)
    return f"## Your last file was sent back\n\n{points}\n\n```python\n{source}\n```"


def listed(criteria: Sequence[Criterion]) -> str:
    """Return criteria as a list for a prompt."""
    return "\n".join(f"- {criterion_words(criterion)}" for criterion in criteria)


def criterion_words(criterion: Criterion) -> str:
    """Return a criterion with what it measures and how much of it is right, for a prompt."""
    ends = [
        f"{word} {value:g} {'' if criterion.unit == '1' else criterion.unit}".rstrip()
        for word, value in (("nothing at", criterion.zero), ("full credit at", criterion.goal))
        if value is not None
    ]
    kind = "guard" if criterion.is_guard else f"{criterion.kind}, weight {criterion.weight:g}"
    how = f"; {criterion.direction.replace('_', ' ')}, {', '.join(ends)}" if ends else ""
    return f"{criterion.title} ({kind}): {criterion.quantity}{how}"


def table(trial: Trial, threshold: float | None = None) -> str:
    """Return how the examples did as a table for a prompt; `threshold` is the score that passes."""
    if not trial.examples:
        return "They could not be run: " + "; ".join(
            (*trial.reward_problems, *trial.judge_problems)
        )
    rows = [
        f"| {example.name}{' (good)' if example.is_good else ''} | {_number(example.score)}"
        f"{_beside(example, threshold)} | {_number(example.pay)} | "
        + ", ".join(f"{name} {few_digits(value)}" for name, value in example.terms.items())
        + f" | {example.reason or ''} |"
        for example in trial.examples
    ]
    head = (
        "| episode | judge | reward in sum | by term | what earned little |\n|---|---|---|---|---|"
    )
    passes = [] if threshold is None else [f"A score of {threshold:g} passes.", ""]
    return "\n".join([*passes, head, *rows])


def _beside(example: ExampleResult, threshold: float | None) -> str:
    """Say in words what a score just beside the threshold means."""
    if threshold is None or example.score is None:
        return ""
    by = example.score - threshold
    if example.is_good:
        if by < 0:
            return f", **which would not pass: {-by:.3f} too little**"
        return f", passes by a hair ({by:.3f})" if by < _A_HAIR else ""
    if by >= 0:
        return ", **which passes**"
    return f", **fails by a hair only ({-by:.3f})**" if -by < _A_HAIR else ""


def _number(value: float | None) -> str:
    return "unknown" if value is None else few_digits(value)
