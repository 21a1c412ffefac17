"""Context of prompts: the intent, the session's own environment, criteria and examples.

All roles see the same facts, of the environment as it is configured here and not as it is by
default: how it terminates, what the policy does not see, which angles are not wrapped, what is
recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from telic.core.text import few_digits
from telic.envs import make
from telic.envs.catalogue import describe_text
from telic.envs.spec import EnvSpec
from telic.envs.tasks import RULES
from telic.judges.criteria import Criterion
from telic.judges.validation import ExampleResult, Trial
from telic.quantities.reference import describe_quantities
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

_NARROWLY = 0.1
"""distance from the passing score within which an example passes or fails narrowly"""
_ALWAYS_RECORDED = ("obs", "next_obs", "action", "terminated", "truncated")
_ABOUT = {"x": "roll to the right", "y": "front flip", "z": "turn to the left"}


def scene(intent: str, spec: EnvSpec) -> dict[str, str]:
    """Return what every prompt may show: the intent, the robot, what can be measured on it."""
    quantities: list[str] = []
    for row in describe_quantities(spec):
        shape = "" if row.shape == "(N,)" else f" of shape {row.shape}"
        memory = "" if row.memory is None else f" with a memory of {row.memory}"
        kind = f"[{row.unit}], {row.kind}{shape}{memory}"
        quantities.append(f"- `{row.name}` {kind}, `{row.usage}`: {row.formula}")
    return {
        "intent": intent,
        "environment": f"{describe_text(spec)}\n{own_facts(spec)}",
        "quantities": "\n".join(quantities),
    }


def own_scene(intent: str, env: str, env_args: dict[str, Any]) -> dict[str, str]:
    """Return the scene of an environment as it is made with these arguments."""
    made = make(env, num_envs=1, **env_args)
    made.close()
    return scene(intent, made.spec)


def own_facts(spec: EnvSpec) -> str:
    """Return the facts of the environment as it is configured, as a section of a prompt."""
    facts = [_termination(spec), *_terrain(spec), *_unseen(spec), *_unwrapped(spec)]
    kept = [name for name in RECORDED if name in spec.info_keys]
    # An episode gives the size of the forces it recorded, as a step does.
    kept += ["contacts"] if "cfrc_ext" in kept and "contacts" in spec.info_keys else []
    columns = (*kept, *_ALWAYS_RECORDED)
    facts.append(
        f"Recorded for the judge, after every step: `{' '.join(columns)}`, and with them every "
        "quantity in the list."
    )
    quantities = {row.name for row in describe_quantities(spec)}
    others = sorted(set(spec.info_keys) - {*columns, *quantities, "dt", "episode_start"})
    if others:
        words = " ".join(others)
        facts.append(f"Seen by a reward and not recorded, so a judge cannot use it: `{words}`.")
    return "\n".join(["## As it is configured here", "", *(f"- {fact}" for fact in facts)])


def _termination(spec: EnvSpec) -> str:
    ends, rules = spec.arguments.get("terminate_when_unhealthy"), RULES.get(spec.id)
    is_free = rules is None and spec.arguments.get("healthy_z_range", ()) is None
    if ends is False or is_free or (rules is not None and rules.ends == "never"):
        return "An episode never ends early, whatever the robot does: falling costs no time."
    if rules is None and ends is None:
        return "The environment itself decides whether an episode ends early."
    why = "when it is unhealthy" if rules is None else rules.ends.rpartition("=False: ")[2]
    ranges = [
        f"{name} = {value}"
        for name, value in spec.arguments.items()
        if name.startswith("healthy_") and name.endswith("_range")
    ]
    here = f" (here {', '.join(ranges)})" if ranges else ""
    return f"An episode ends early: {why}{here}. Steps after that earn nothing."


def _terrain(spec: EnvSpec) -> Iterator[str]:
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
        "above it. The policy sees nothing of the ground. It is judged on freshly drawn fields."
    )


def _unseen(spec: EnvSpec) -> Iterator[str]:
    """Yield the coordinates of the robot that its policy does not observe."""
    if spec.robot is None or not any(name in spec.obs_names for name in spec.joint_names):
        return  # the columns of this observation have no known names
    places: list[str] = []
    for slide in spec.robot.root.slides:
        before = [joint for joint in spec.joints if joint.qpos_address <= slide.qpos]
        joint = max(before, key=lambda joint: joint.qpos_address)
        axis = f"_{'xyz'[slide.qpos - joint.qpos_address]}" if joint.kind == "free" else ""
        if f"{joint.name}{axis}" not in spec.obs_names:
            places.append(f"{slide.axis} (`qpos[{slide.qpos}]`)")
    if places:
        yield (
            f"The policy does not observe {' and '.join(places)}: it cannot know where it is along "
            "there, only how fast it moves. Reward and judge can measure it."
        )


def _unwrapped(spec: EnvSpec) -> Iterator[str]:
    """Yield the angles that keep counting beyond a turn."""
    root = spec.robot.root if spec.robot else None
    hinge = root.hinge if root else None
    for joint in spec.joints:
        if joint.kind != "hinge" or joint.low is not None:
            continue
        turn = ""
        if hinge is not None and hinge.qpos == joint.qpos_address:
            turn = f", by {hinge.sign * 2 * math.pi:+.2f} for every {_ABOUT[hinge.axis]}"
        yield (
            f"`{joint.name}` (`qpos[{joint.qpos_address}]`) is an angle that is not wrapped: it "
            f"counts beyond ±{math.pi:.2f}{turn}."
        )
    if root is not None and root.quaternion is not None:
        yield (
            "The torso's orientation is a quaternion, w first; `q` and `-q` are the same "
            "orientation. `roll`, `pitch` and `yaw` are wrapped; what ends in `_rotation` or "
            "`_turns` adds up over the episode and is not."
        )


# ---- criteria, examples, problems


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
    kind = "constraint" if criterion.is_guard else f"{criterion.kind}, weight {criterion.weight:g}"
    how = f"; {criterion.direction.replace('_', ' ')}, {', '.join(ends)}" if ends else ""
    return f"{criterion.title} ({kind}): {criterion.quantity}{how}"


def table(trial: Trial, threshold: float | None = None) -> str:
    """Return how the examples did as a table for a prompt; `threshold` is the score that passes."""
    if not trial.examples:
        problems = (*trial.reward_problems, *trial.judge_problems)
        return f"They could not be run: {'; '.join(problems)}"
    passes = [] if threshold is None else [f"A score of {threshold:g} passes.", ""]
    rows = ["| episode | judge | reward in sum | by term | what earned little |", f"|{'---|' * 5}"]
    for each in trial.examples:
        terms = ", ".join(f"{name} {few_digits(value)}" for name, value in each.terms.items())
        score, pay = (
            "unknown" if value is None else few_digits(value) for value in (each.score, each.pay)
        )
        name = f"{each.name}{' (good)' if each.is_good else ''}"
        verdict = _verdict(each, threshold)
        rows.append(f"| {name} | {score}{verdict} | {pay} | {terms} | {each.reason or ''} |")
    return "\n".join([*passes, *rows])


def _verdict(example: ExampleResult, threshold: float | None) -> str:
    """Return a remark on a score that is wrong, or close to the threshold."""
    if threshold is None or example.score is None:
        return ""
    by = example.score - threshold
    if example.is_good and by < 0:
        return f", **which would not pass: {-by:.3f} too little**"
    if not example.is_good and by >= 0:
        return ", **which passes**"
    if abs(by) >= _NARROWLY:
        return ""
    return f", passes narrowly ({by:.3f})" if by >= 0 else f", **fails narrowly ({-by:.3f})**"
