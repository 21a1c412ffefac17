"""Mutants: real episodes of a trained policy, changed in a known way.

The robot is frozen, the episode cut short, slowed down, run backward in time, shuffled, mirrored
left to right or front to back; positions, velocities and forces are changed consistently. The judge
that passed the policy is given the mutants. A frozen or cut episode must not pass, and a criterion
is only worth its name if it notices mutants that change what it measures; whether they do is
measured here, with `telic.quantities`, and not by the judge.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from telic.core.config import Record
from telic.core.seeds import derive
from telic.envs.spec import EnvSpec, Robot
from telic.errors import TelicError
from telic.judges.criteria import Criterion
from telic.judges.episode import MeasuredTogether, RecordedEpisode
from telic.judges.verdict import Verdict
from telic.quantities import QUANTITIES
from telic.storage.trajectories import COMMANDS, Trajectory

FROZEN, CUT = "frozen", "cut short"
_CUT_SHARE = 0.05
_SLOWER = 4
_LOSES = 0.1
"""credit lost by which a criterion shows that it noticed"""
_CHANGED = 0.5
"""change of a quantity, in parts of its size, that is beyond doubt"""
_TINY = 1e-9
_VELOCITIES = ("qvel", "cvel")
Columns = Mapping[str, np.ndarray]


class MutantCount(Record):
    """Number of mutants that a criterion noticed."""

    criterion: str
    caught: int
    """mutants that lost credit"""
    changed: int | None
    """mutants that changed what it measures, as measured by the host; None: not known"""
    total: int
    """mutants of episodes that had earned credit"""


def mutants_of(trajectory: Trajectory, spec: EnvSpec) -> dict[str, Trajectory]:
    """Return the mutants of an episode, by what was done to it."""
    columns, count = trajectory.columns, len(trajectory)
    random = np.random.default_rng(derive("mutants", count))
    steps = np.arange(count)

    def made(rows: np.ndarray, velocity: float = 1.0, **more: np.ndarray) -> Columns:
        """Return other rows of what the robot did; its commands at each moment stay."""
        out = {
            name: np.ascontiguousarray(column[: len(rows)] if name in COMMANDS else column[rows])
            for name, column in columns.items()
        }
        for name in _VELOCITIES:
            if name in out:
                out[name] = out[name] * np.asarray(velocity, dtype=out[name].dtype)
        return {**out, **more}

    cut = np.arange(max(1, int(_CUT_SHARE * count)))
    mutants: dict[str, Columns] = {
        FROZEN: made(0 * steps, 0.0, terminated=np.zeros_like(columns["terminated"])),
        CUT: made(cut, terminated=columns["terminated"][cut] | (cut == cut[-1])),
        "slowed down": made(steps // _SLOWER, 1.0 / _SLOWER),
        "reversed": made(steps[::-1], -1.0),
        "shuffled": made(random.permutation(count)),
    }
    if spec.robot is not None and "qpos" in columns and "qvel" in columns:
        moves = spec.robot.root.moves
        if "y" in moves:
            mutants["mirrored left to right"] = _mirrored(columns, spec.robot, 1)
        if "x" in moves:
            mutants["mirrored front to back"] = _mirrored(columns, spec.robot, 0)
    return {name: Trajectory(changed, trajectory.facts) for name, changed in mutants.items()}


def _mirrored(columns: Columns, robot: Robot, axis: int) -> Columns:
    """Return the episode as a mirror shows it; `axis` 0 is front to back, 1 left to right."""
    root, out = robot.root, {name: column.copy() for name, column in columns.items()}
    along = np.ones(3)
    along[axis] = -1.0
    about = -along  # what turns: the other two axes are turned the other way
    qpos, qvel = out["qpos"], out["qvel"]
    for slide in root.slides:
        if slide.axis == "xyz"[axis]:
            qpos[:, slide.qpos] = qpos[:, slide.qpos] * -1.0 - 2.0 * slide.sign * slide.offset
            qvel[:, slide.dof] *= -1.0
    if root.hinge is not None and about["xyz".index(root.hinge.axis)] < 0.0:
        qpos[:, root.hinge.qpos] *= -1.0
        qvel[:, root.hinge.dof] *= -1.0
    if root.quaternion is not None:
        qpos[:, root.quaternion + 1 : root.quaternion + 4] *= about
        if root.spin is not None:
            qvel[:, root.spin : root.spin + 3] *= about
    for name, factors in (
        ("xpos", along),
        ("subtree_com", along),
        ("xquat", np.concatenate(([1.0], about))),
        ("cvel", np.concatenate((about, along))),
        ("cfrc_ext", np.concatenate((about, along))),
    ):
        if name in out:
            out[name] = (out[name] * factors).astype(out[name].dtype)
    return out


def counts(
    criteria: Sequence[Criterion],
    originals: Sequence[tuple[Trajectory, Verdict]],
    mutants: Sequence[dict[str, tuple[Trajectory, Verdict]]],
    spec: EnvSpec,
) -> tuple[MutantCount, ...]:
    """Return how many mutants each criterion noticed.

    Args:
        criteria: what was agreed on, which names the quantities that are measured.
        originals: episodes and their verdicts.
        mutants: of each, by name, the same.
        spec: the environment.
    """
    families = [[original, *own.values()] for original, own in zip(originals, mutants, strict=True)]
    flat = [trajectory for family in families for trajectory, _ in family]
    together, places = MeasuredTogether(flat, spec), itertools.count()
    measured = [
        [RecordedEpisode(each, spec, among=(together, next(places))) for each, _ in family]
        for family in families
    ]
    out: list[MutantCount] = []
    for place, title in enumerate(
        each.title for each in (originals[0][1].leaves if originals else ())
    ):
        own = (each for each in criteria if title.lower().startswith(each.title.lower()))
        words = next((each.quantity for each in own), "")
        names = frozenset(re.findall(r"\w+", words)) & QUANTITIES.keys()
        # Quantities of a body whose name the code makes up cannot be measured here.
        is_known = bool(names) and not any(QUANTITIES[name].arguments for name in names)
        caught = changed = total = 0
        for family, (whole, *others) in zip(families, measured, strict=True):
            credits = [
                verdict.leaves[place].counted if place < len(verdict.leaves) else 0.0
                for _, verdict in family
            ]
            if credits[0] >= _LOSES:
                total += len(others)
                caught += sum(credit <= credits[0] - _LOSES for credit in credits[1:])
                changed += sum(is_known and _is_changed(whole, each, names) for each in others)
        known = changed if is_known else None
        out.append(MutantCount(criterion=title, caught=caught, changed=known, total=total))
    return tuple(out)


def _is_changed(before: RecordedEpisode, after: RecordedEpisode, names: frozenset[str]) -> bool:
    """Return whether a mutant clearly changed the mean or the final change of a quantity."""
    for name in names:
        try:
            old, new = before[name], after[name]
        except TelicError:
            continue  # not recorded
        was = np.stack([old.mean(0), old[-1] - old[0]])
        now = np.stack([new.mean(0), new[-1] - new[0]])
        size = np.abs(old.mean(0)) + old.std(0)
        if np.any(np.abs(now - was) > _CHANGED * size + _TINY):
            return True
    return False
