"""Check criteria before the rewards and judges are written.

The names of quantities, the order of zero and goal, titles, failure modes and terrain are checked
statically. Then the measures are evaluated on recordings of a robot at rest, with random actions
and with untrained networks: each measure must be defined, differ between recordings, and have
a goal that the robot can reach. All problems are reported together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from telic.core.tensors import use_one_thread
from telic.core.text import closest, few_digits
from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.criteria import Criterion, EpisodePhase
from telic.judges.episode import RecordedEpisode, recorded_together
from telic.judges.failure_modes import FAILURE_MODES, untrained_policy
from telic.judges.measured import (
    TIME_LEFT,
    is_expression,
    measured_names,
    problem_of_measure,
    score_criterion,
    single_value,
)
from telic.judges.metrics import METRICS
from telic.judges.mutants import mutants_of
from telic.judges.recorder import recorded_episodes
from telic.quantities import QUANTITIES
from telic.rewards.confined import run_confined

_ROWS, _CHECK_S = 12, 120.0
_GRAVITY = 9.81
_BEYOND = 3.0
"""factor beyond the recorded values, or the robot's scale, from which a goal is unreachable"""
_CONSTANT = 1e-9


def with_measures(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """Add a measure to criteria whose quantity is an expression of known quantities."""
    return tuple(
        each.model_copy(update={"measure": each.quantity})
        if not each.measure and is_expression(each.quantity)
        else each
        for each in criteria
    )


def criteria_problems(
    criteria: Sequence[Criterion],
    phases: Sequence[EpisodePhase],
    spec: EnvSpec,
    fine: Sequence[str] = (),
    terrain: str = "flat",
) -> Iterator[str]:
    """Yield the problems of criteria that can be found without recordings."""
    for title, count in Counter(each.title.strip().casefold() for each in criteria).items():
        if count > 1:
            yield f'{count} criteria have the title "{title}". Titles must be unique.'
    if not any(each.weight > 0.0 and not each.is_guard for each in criteria):
        yield "No criterion has a weight, so all episodes would have the same score."
    for each in criteria:
        for problem in _problems(each, len(phases), spec):
            yield f'"{each.title}": {problem}'
    for number, phase in enumerate(phases, 1):
        condition = Criterion(title="end", quantity="", measure=phase.until)
        if phase.until and (problem := problem_of_measure(condition, spec)):
            yield f"The end of phase {number} cannot be measured: {problem}"
        elif not phase.until and number < len(phases):
            yield f"Phase {number} has no end. Define its end condition in `until`."
    if terrain != "flat" and "terrain" not in spec.arguments:
        yield f"{spec.id} supports flat terrain only, not {terrain}."
    for name in set(fine).difference(FAILURE_MODES):
        yield f'"{name}" is not a failure mode. Available: {", ".join(FAILURE_MODES)}.'


def _problems(criterion: Criterion, phases: int, spec: EnvSpec) -> Iterator[str]:
    zero, goal, way = criterion.zero, criterion.goal, criterion.direction
    if zero is None or goal is None or not math.isfinite(zero) or not math.isfinite(goal):
        yield "zero and goal must be finite numbers."
    elif zero == goal:
        yield f"zero and goal are both {goal:g}, but partial credit requires a range."
    elif (way == "at_least" and goal < zero) or (way == "at_most" and goal > zero):
        yield f"{way} requires the goal on the other side of zero: zero {zero:g}, goal {goal:g}."
    if criterion.phase > phases:
        yield f"phase {criterion.phase} does not exist."
    if criterion.measure:
        problem = problem_of_measure(criterion, spec)
        yield from [f"it cannot be measured: {problem}"] if problem else ()
        return
    named = set(re.findall(r"\w+", criterion.quantity))
    if known := sorted(named & QUANTITIES.keys()):
        yield (
            f"it mentions {', '.join(known)}, so it can be measured. Define `measure` as an "
            f"expression, for example mean({known[0]})."
        )
    for name in sorted(each for each in named if "_" in each and each not in QUANTITIES):
        if name not in METRICS:
            near = ", ".join(closest(name, [*QUANTITIES])) or "see the list"
            yield f"{name} is not a quantity. Closest: {near}."


def has_problem(criterion: Criterion, spec: EnvSpec) -> bool:
    """Return whether a criterion has a problem that can be found without recordings."""
    return any(_problems(criterion, criterion.phase, spec))


# ---- on recordings


def measured_problems(
    env: str,
    env_args: dict[str, Any],
    criteria: Sequence[Criterion],
    folder: Path,
) -> tuple[str, ...]:
    """Return the measures that fail, never vary or have unreachable goals on recordings."""
    payload = {
        "env": env,
        "env_args": env_args,
        "criteria": [each.model_dump(mode="json") for each in criteria if each.measure],
    }
    try:
        result = run_confined(f"{__name__}:check_confined", payload, folder, [(env, env_args)])
    except TelicError as error:
        return (f"The criteria could not be evaluated on recordings: {error}",)
    return tuple(map(str, result.get("problems", ())))


def check_confined(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Evaluate measures on recordings in a sandboxed worker, without any untrusted code."""
    use_one_thread()
    channel.heartbeat(_CHECK_S, "evaluating criteria on recordings")
    criteria = [Criterion.model_validate(row) for row in payload["criteria"]]
    return {"problems": list(problems_here(payload["env"], payload["env_args"], criteria))}


def problems_here(
    env_id: str,
    env_args: dict[str, Any],
    criteria: Sequence[Criterion],
) -> Iterator[str]:
    """Yield problems with measures, based on episodes recorded in this process."""
    env = make(env_id, num_envs=_ROWS, seed=0, **env_args)
    spec = env.spec  # the first mode does nothing
    episodes = recorded_episodes(untrained_policy(env, 0), env, (env_id, env_args), 0)
    parts = recorded_together(episodes, spec)
    changed = [RecordedEpisode(each, spec) for each in mutants_of(episodes[0], spec).values()]
    for criterion in criteria:
        # Each is measured on whole episodes, because a phase that is not reached measures nothing.
        if criterion.measure.strip() == TIME_LEFT or None in (criterion.zero, criterion.goal):
            continue
        try:
            rows = [single_value(criterion, part) for part in parts]
        except TelicError as error:
            yield f'"{criterion.title}" cannot be measured: {error}'
            continue
        values = [value for value in rows if math.isfinite(value)]
        if not values:
            yield f'"{criterion.title}" is not a number in any recording.'
            continue
        low, high, goal = min(values), max(values), criterion.goal or 0.0
        credit = score_criterion(criterion, low).credit
        others = (abs(single_value(criterion, each) - low) for each in changed)
        is_constant = high - low < _CONSTANT and credit > 0.0 and not criterion.is_guard
        if is_constant and not any(other > _CONSTANT for other in others):
            yield (
                f'"{criterion.title}": {criterion.measure} is {few_digits(low)} in all '
                "recordings, regardless of the motion."
            )
        is_share = criterion.measure.startswith("share") or "uprightness" in criterion.measure
        most = (
            1.0
            if is_share
            else _BEYOND * max(abs(low), abs(high), _scale(criterion, spec, parts[0].full_seconds))
        )
        if abs(goal) > most:
            rest = rows[0]
            yield (
                f'"{criterion.title}": the goal {goal:g} {criterion.unit} is unreachable. It is '
                f"{few_digits(rest)} at rest, {few_digits(low)} to {few_digits(high)} with "
                f"random actions and networks, at most about {few_digits(most)}."
            )


def _scale(criterion: Criterion, spec: EnvSpec, seconds: float) -> float:
    """Return a value in the criterion's unit that would be large for a robot of this size."""
    robot = spec.robot
    legs = [leg.length_m for leg in robot.legs] if robot is not None else []
    size = max([*legs, (robot.rest_height or 0.0) if robot is not None else 0.0, 0.3])
    speed = 2.0 * math.sqrt(_GRAVITY * size)
    goes_up = re.search("height|rise|climb", f"{criterion.measure} {criterion.title}") is not None
    scales: Mapping[str, float] = {
        "m": size if goes_up else speed * seconds,
        "m/s": speed,
        "rad/s": 10.0,
        "rad": math.pi,
        "turns": 0.7 * seconds,
        "s": seconds / _BEYOND,
    }
    named = [QUANTITIES[name].unit for name in measured_names(criterion.measure) if name]
    return scales.get(criterion.unit.strip() or (named or [""])[0], math.inf)
