"""Context for prompts: the prefix that all prompts of a session share, and details.

All prompts of a session start with the same bytes, so that prompt caches hit: the intent, the rules
of the session, the robot, and its quantities with measured ranges. The prefix is generated once and
stored in the session folder. Roles that write no code get its first paragraphs only. Details that
depend on an answer, e.g. the episode length, come later.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch

from telic.authors.author import Brief
from telic.core.text import few_digits, figure
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.spec import EnvSpec
from telic.envs.tasks import RULES
from telic.envs.vector import Info
from telic.errors import TelicError
from telic.judges.criteria import Criterion, EpisodePhase
from telic.judges.demonstrations import Examples, open_env
from telic.judges.episode import recorded_together
from telic.judges.validation import ExampleResult
from telic.quantities import QUANTITIES
from telic.quantities.quantity import NotRecorded
from telic.quantities.reference import describe_quantities
from telic.rewards.recording import Transition, keep
from telic.robots.terrain import (
    FIELD_M,
    STAIRS_M,
    TERRAINS,
    ground_in,
    hardest_step,
    steepest,
    steps_of,
)
from telic.storage.files import read_fields, write_text
from telic.storage.keys import is_own_folder
from telic.storage.layout import list_runs
from telic.storage.reading import read_text
from telic.storage.trajectories import RECORDED, Trajectory, read_trajectory
from telic.training.plan import OWN

_PROMPTS = Path(__file__).parent / "prompts"
_NARROWLY = 0.1
"""maximum distance from the threshold at which an example passes or fails narrowly"""
_ROWS, _SECONDS, _MAX_STEPS = 4, 5.0, 400
"""episodes per column of measured ranges, and their maximum length in seconds and steps"""
_STILL = "no action (start → end)"
_IN_EPISODE = ("action", "contacts", "dt", "episode_start")
"""values of `info` that a judge can use although they are not recorded"""
_MAX_PARTS = 4
"""maximum number of components of a quantity that are listed with separate ranges"""
_SIGN = re.compile(r"positive|negative|1 is|turn")
"""pattern for sign conventions (kept in a quantity's description)"""

_SEARCHED = 20
"""number of earlier runs to search for one trained with the environment's native reward"""


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_PROMPTS),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,
)


def render(name: str, **values: Any) -> str:
    """Render the prompt template `<name>.md`."""
    return _TEMPLATES.get_template(f"{name}.md").render(**values).strip()


def prompt_source(name: str) -> str:
    """Return the source of a prompt template."""
    return read_text(_PROMPTS / f"{name}.md")


# ---- shared prefix


def session_context(brief: Brief) -> str:
    """Return the shared prompt prefix of a session, generated once and cached in its folder."""
    path = brief.folder.context
    if not path.exists():
        spec, config, (episodes, info) = brief.spec, brief.config, _recorded(brief)
        known = {row.name for row in describe_quantities(spec)}
        starts, noise = "as the environment itself draws them", "reset_noise_scale"
        if (scale := spec.arguments.get(noise)) is not None:
            starts = f"the resting pose with random noise of ±{scale:g} on positions and velocities"
        write_text(
            path,
            render(
                "context",
                config=config,
                spec=spec,
                rules=RULES.get(spec.id),
                observations=_observations(spec),
                facts=_unseen(spec),
                shapes=[
                    (str(("N", *info[name].shape[1:])).replace("'", ""), name)
                    for name in sorted(set(info) - known)
                ],
                unrecorded=sorted(set(spec.info_keys) - {*RECORDED, *known, *_IN_EPISODE}),
                starts=starts,
                quantities=_quantities(spec, episodes),
                columns=list(episodes),
                shown=", ".join(example_of(spec).values()),
                seconds=_SECONDS,
            ),
        )
    return read_text(path)


def _observations(spec: EnvSpec) -> str:
    """Describe the observation columns, with one line per block of columns for a body."""
    parts: list[str] = []
    for _, group in groupby(enumerate(spec.obs_names), lambda pair: pair[1].partition("/")[0]):
        (first, start), *rest = group
        parts.append(f"{first} {start}" if not rest else f"{first}..{rest[-1][0]} {start} ...")
    return ", ".join(parts)


def _quantities(
    spec: EnvSpec, episodes: dict[str, list[Trajectory]]
) -> list[tuple[str, str, str, list[str], str]]:
    """Return the name, unit, kind, measured ranges and meaning of every quantity."""
    ranges = [_ranges(own, spec, is_still=name == _STILL) for name, own in episodes.items()]
    rows: list[tuple[str, str, str, list[str], str]] = []
    for row in describe_quantities(spec):
        named = QUANTITIES[row.name].arguments
        name = f"{row.name}({', '.join(named)})" if named else row.name
        kind = f"A{row.memory or ''}" if row.kind == "accumulated" else ""
        shape = "" if row.shape == "(N,)" else f" per {row.shape[4:-1]}"
        measured = [own.get(row.name, "") for own in ranges]
        first, *more = row.formula.rstrip(".").split(". ")
        meaning = ". ".join((first, *(each for each in more[:1] if _SIGN.search(each))))
        rows.append((name, row.unit, f"{kind}{shape}".strip(), measured, meaning))
    return rows


def calls(spec: EnvSpec) -> list[str]:
    """Return the calls of quantities that take arguments, for rewards."""
    return [each.usage for each in describe_quantities(spec) if QUANTITIES[each.name].arguments]


def _recorded(brief: Brief) -> tuple[dict[str, list[Trajectory]], Info]:
    """Record episodes without action, with random actions, and of a policy for the native reward.

    Also return the info of a step.
    """
    env_id = brief.config.env
    env = open_env(env_id, {}, 2 * _ROWS)
    names = tuple(f"{kind}{row}" for kind in ("rest", "random") for row in range(_ROWS))
    random, moments = torch.Generator().manual_seed(0), list[Transition]()
    obs = env.reset()
    for _ in range(min(_MAX_STEPS, round(_SECONDS / (env.dt or 0.05)))):
        if env.num_actions is not None:
            action = torch.randint(env.num_actions, (2 * _ROWS,), generator=random)
            action[:_ROWS] = 0
        else:
            low, high = env.action_low.clamp(min=-10.0), env.action_high.clamp(max=10.0)
            action = low + (high - low) * torch.rand(2 * _ROWS, len(low), generator=random)
            rest = low.clamp(min=0.0).minimum(high)
            action[:_ROWS] = env.action_rest if isinstance(env, MujocoEnv) else rest
        step = env.step(action)
        ended = step.terminated.clone()
        moments.append(Transition(obs, action, step.final_obs, keep(step.info), ended, step.reward))
        obs = step.obs
    made = Examples.of(env_id, {}, env, names, moments)
    rows = [made.trajectory(name) for name in names]
    found = {_STILL: rows[:_ROWS], "random actions": rows[_ROWS:]}
    native = _native(brief)
    return ({**found, "native policy": native} if native else found), moments[-1].info


def _native(brief: Brief) -> list[Trajectory]:
    """Return the last evaluation of a policy trained with the environment's native reward."""
    own = (each for each in list_runs(brief.folder.path.parent) if is_own_folder(each.path))
    for run in islice(own, _SEARCHED):
        with suppress(TelicError):  # a damaged run is skipped
            for member in run.members():
                kinds = {"env": str, "reward": str, "env_args": dict[str, Any] | None}
                asked = read_fields(member.config, **kinds)
                is_native = asked["env"] == brief.config.env and asked["reward"] == OWN
                if is_native and (recorded := member.trajectories()):
                    where = asked["env"], asked["env_args"] or {}
                    return [read_trajectory(recorded[-1].path, where)]
    return []


def example_of(spec: EnvSpec) -> dict[str, str]:
    """Return the body and the joint for which quantities with an argument are shown."""
    names = [*spec.feet, spec.torso, *spec.body_names[-1:]]
    joints = [limb.name for limb in spec.robot.limbs] if spec.robot else []
    shown = {"body": next(filter(None, names), None), "joint": joints[-1] if joints else None}
    return {kind: name for kind, name in shown.items() if name is not None}


def _ranges(
    episodes: Sequence[Trajectory], spec: EnvSpec, *, is_still: bool = False
) -> dict[str, str]:
    """Return the 5th to 95th percentile of each quantity, of final values if it is accumulated.

    If `is_still`, return the median at the first and the last step.
    """
    views, ranges, given = recorded_together(episodes, spec), dict[str, str](), example_of(spec)
    for row in describe_quantities(spec):
        names = QUANTITIES[row.name].arguments
        try:
            values = [view.quantity(row.name, *map(given.__getitem__, names)) for view in views]
        except (NotRecorded, KeyError):  # not recorded, or requires a point
            continue
        parts = values[0][0].size if values[0][0].size <= _MAX_PARTS else 1
        if is_still:
            ends = [[own[at].reshape(-1, parts) for own in values] for at in (0, -1)]
            low, high = (np.median(np.concatenate(each), axis=0) for each in ends)
        else:
            own = np.concatenate([own[-1:] if row.kind == "accumulated" else own for own in values])
            low, high = np.percentile(own.reshape(-1, parts), (5, 95), axis=0)
        first, last = ([_plain(value) for value in each.tolist()] for each in (low, high))
        pairs = [a if a == b else f"{a}..{b}" for a, b in zip(first, last, strict=True)]
        change = " ".join(first) + (f" → {' '.join(last)}" if first != last else "")
        ranges[row.name] = change if is_still else " ".join(pairs)
    return ranges


def _plain(value: float) -> str:
    """Format a number with up to two decimals and no exponent."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{round(value, 2) + 0.0:g}"


def _unseen(spec: EnvSpec) -> Iterator[str]:
    """Yield a note on coordinates of the robot that the policy does not observe."""
    if spec.robot is None or not any(name in spec.obs_names for name in spec.joint_names):
        return  # the observation columns have no known names
    places: list[str] = []
    for slide in spec.robot.root.slides:
        before = [joint for joint in spec.joints if joint.qpos_address <= slide.qpos]
        joint = max(before, key=lambda joint: joint.qpos_address)
        axis = f"_{'xyz'[slide.qpos - joint.qpos_address]}" if joint.kind == "free" else ""
        if f"{joint.name}{axis}" not in spec.obs_names:
            places.append(f"{slide.axis} (`qpos[{slide.qpos}]`)")
    if places:
        yield (
            f"The policy does not observe {' and '.join(places)}: it knows its velocity along this "
            "axis, but not its position. The reward and the judge can measure it."
        )


# ---- environment configuration


def configured(env: str, env_args: dict[str, Any]) -> list[str]:
    """Describe the episode length, termination and terrain set by the environment arguments."""
    made = make(env, num_envs=1, **env_args)
    made.close()
    spec, limit = made.spec, made.spec.max_episode_steps
    length = "An episode has no time limit."
    if limit is not None:
        seconds = "" if spec.dt_s is None else f" ({limit * spec.dt_s:g} s)"
        length = f"An episode has at most {limit} steps{seconds}."
    return [length, _termination(spec), *_terrain(spec)]


def _termination(spec: EnvSpec) -> str:
    ends, rules = spec.arguments.get("terminate_when_unhealthy"), RULES.get(spec.id)
    is_free = rules is None and spec.arguments.get("healthy_z_range", ()) is None
    if ends is False or is_free or (rules is not None and rules.ends == "never"):
        return "Episodes never end early, not even after a fall."
    if rules is None and ends is None:
        return "The environment decides whether an episode ends early."
    why = "when it is unhealthy" if rules is None else rules.ends.rpartition("=False: ")[2]
    ranges = [
        f"{name} = {value}"
        for name, value in spec.arguments.items()
        if name.startswith("healthy_") and name.endswith("_range")
    ]
    here = f" (here {', '.join(ranges)})" if ranges else ""
    return f"An episode ends early: {why}{here}. Later steps earn nothing."


def _terrain(spec: EnvSpec) -> list[str]:
    if "terrain" not in spec.arguments:
        return []
    ground = ground_in(spec.arguments)
    tall = spec.robot.rest_height if spec.robot and spec.robot.rest_height else 0.3
    return [
        render(
            "terrain",
            ground=ground,
            kinds=TERRAINS,
            field_m=FIELD_M,
            slope_m=STAIRS_M,
            degrees=math.degrees(steepest(ground.hardest)),
            steps=steps_of(tall),
            step_m=hardest_step(ground.hardest, tall),
            is_at_foot=spec.arguments.get("terrain_start") == "foot",
        )
    ]


# ---- criteria and examples


def phase_words(phases: Sequence[EpisodePhase]) -> list[str]:
    """Describe when each phase of a sequence ends for a prompt."""
    return [
        f"Phase {number} ends when `{phase.until}` has held for {phase.seconds:g} s in all."
        for number, phase in enumerate(phases, 1)
        if phase.until
    ]


def criterion_words(criterion: Criterion, *, is_measured: bool = True) -> str:
    """Describe the quantity, measure and range of a criterion for a prompt."""
    zero, goal, ends = criterion.zero, criterion.goal, ""
    if zero is not None and goal is not None:
        unit = "" if criterion.unit == "1" else f" {criterion.unit}".rstrip()
        ends = f"; no credit at {zero:g}{unit}, full at {goal:g}{unit}"
        if criterion.direction == "about":
            off = abs(goal - zero)
            ends = f"; full credit within {off / 4:.3g}{unit} of {goal:g}, none from {off:g} off"
    kind = "constraint" if criterion.is_guard else f"{criterion.kind}, weight {criterion.weight:g}"
    measure = f" = `{criterion.measure}`" if is_measured and criterion.measure else ""
    part = f" in phase {criterion.phase}" if criterion.phase else ""
    return f"{criterion.title} ({kind}{part}): {criterion.quantity}{measure}{ends}"


def example_table(examples: Sequence[ExampleResult], threshold: float | None = None) -> str:
    """Return a table of examples: score, reward by term, and credits of the numbered criteria."""
    terms = list(dict.fromkeys(name for each in examples for name in each.terms))
    most = max((len(each.criteria) for each in examples), default=0)
    rows = [["episode", "judge", "total reward", *terms, *map(str, range(1, most + 1))]]
    for each in examples:
        judged = f"unknown ({each.reason})"
        if each.score is not None:
            judged = f"{few_digits(each.score)}{_remark(each, threshold)}"
        paid = [each.pay, *map(each.terms.get, terms)]
        sums = ["unknown" if value is None else few_digits(value) for value in paid]
        credits = [
            "1" if made.counted == 1.0 else f"{made.counted:.2g} ({figure(made.value)})"
            for made in each.criteria
        ]
        rows.append([f"{each.name}{' (good)' * each.is_good}", judged, *sums, *credits])
    return table_text(rows)


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, whose first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _remark(example: ExampleResult, threshold: float | None) -> str:
    """Return a remark if a score is close to the threshold or on the wrong side of it."""
    if threshold is None or example.score is None:
        return ""
    by = example.score - threshold
    is_near, is_wrong = abs(by) < _NARROWLY, (by >= 0) != example.is_good
    what = f"{'passes' if by >= 0 else 'fails'}{f' narrowly ({abs(by):.3f})' if is_near else ''}"
    return f", **{what}**" if is_wrong else f", {what}" if is_near else ""
