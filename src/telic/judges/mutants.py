"""Mutants: copies of recorded episodes with a known modification.

In a mutant, the robot is frozen, tilted, lowered, displaced or lifts a foot, or the episode is cut,
delayed, held before its end, slowed down, reversed, shuffled or mirrored. Positions, velocities and
forces are changed consistently. A frozen or cut episode must not pass, and a criterion that only
code measures must detect mutants by losing credit, even if that credit is behind a closed gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from telic.core.config import Record
from telic.core.rotations import about, multiply, rotate
from telic.core.seeds import derive
from telic.envs.spec import EnvSpec, Robot
from telic.judges.verdict import Verdict
from telic.storage.trajectories import COMMANDS, Trajectory

FROZEN, CUT = "frozen", "cut short"
_CUT_SHARE = 0.05
_SLOWER = 4
LOSES = 0.1
"""minimum loss of credit that counts as detection"""
_TILT_RAD, _LOWER, _DRIFT_MPS, _LIFT_RAD = 0.7, 0.4, 0.5, 0.6
_VELOCITIES = ("qvel", "cvel")
Columns = Mapping[str, np.ndarray]


class MutantCount(Record):
    """Number of mutants that a criterion detected."""

    criterion: str
    caught: int
    """mutants in which it lost credit, whether or not the credit counts"""
    changed: int | None
    """mutants in which its measured value differs, or None if not known"""
    total: int
    """mutants of episodes in which it had earned credit"""


def mutants_of(trajectory: Trajectory, spec: EnvSpec) -> dict[str, Trajectory]:
    """Return the mutants of an episode by the name of their modification."""
    columns, count = trajectory.columns, len(trajectory)
    random = np.random.default_rng(derive("mutants", count))
    steps = np.arange(count)

    def made(rows: np.ndarray, velocity: float | np.ndarray = 1.0, **more: np.ndarray) -> Columns:
        """Return the given rows of the robot's state, with the original commands at each step."""
        out = {
            name: np.ascontiguousarray(column[: len(rows)] if name in COMMANDS else column[rows])
            for name, column in columns.items()
        }
        for name in _VELOCITIES:
            if name in out:
                factor = np.reshape(velocity, (-1,) + (1,) * (out[name].ndim - 1))
                out[name] = out[name] * factor.astype(out[name].dtype)
        return {**out, **more}

    def held(last: int) -> Columns:
        return made(np.minimum(steps, last), (steps <= last).astype(float))

    cut, late = np.arange(max(1, int(_CUT_SHARE * count))), steps - count // 4
    mutants: dict[str, Columns] = {
        FROZEN: made(0 * steps, 0.0, terminated=np.zeros_like(columns["terminated"])),
        CUT: made(cut, terminated=columns["terminated"][cut] | (cut == cut[-1])),
        "slowed down": made(steps // _SLOWER, 1.0 / _SLOWER),
        "reversed": made(steps[::-1], -1.0),
        "shuffled": made(random.permutation(count)),
        "delayed": made(np.maximum(late, 0), (late >= 0).astype(float)),
        "half done": held(count // 2),
    }
    robot = spec.robot
    if robot is not None and {"qpos", "qvel"} <= columns.keys():
        mutants |= _displaced(columns, robot, spec.dt_s or 1.0)
        if robot.torso is not None and "xpos" in columns:
            mutants["without a landing"] = held(int(np.argmax(columns["xpos"][:, robot.torso, 2])))
    return {name: Trajectory(changed, trajectory.facts) for name, changed in mutants.items()}


def _displaced(columns: Columns, robot: Robot, dt: float) -> dict[str, Columns]:
    """Return mutants in which the robot or one foot is displaced, where possible."""
    mutants: dict[str, Columns] = {}
    steps = np.arange(len(columns["qpos"]))
    moves, way = robot.root.moves, _DRIFT_MPS * dt * steps
    for name, axis in (("front to back", 0), ("left to right", 1)):
        if "xyz"[axis] in moves:
            mutants[f"mirrored {name}"] = _mirrored(columns, robot, axis)
    if robot.torso is not None and {"xpos", "xquat"} <= columns.keys():
        for name, axis, along, speed in (
            ("lowered", 2, 0.0 * steps - _LOWER * (robot.rest_height or 0.5), 0.0),
            ("drifting ahead", 0, way, _DRIFT_MPS),
            ("drifting aside", 1, way, _DRIFT_MPS),
        ):
            if "xyz"[axis] in moves:
                mutants[name] = _moved(columns, robot, axis, along, speed)
        for axis in [axis for axis in (1, 0) if "xyz"[axis] in robot.root.turns][:1]:
            mutants["tilted"] = _tilted(columns, robot, axis)
        if robot.feet:
            mutants["lifting a foot"] = _lifted(columns, robot)
    return mutants


def _own_bodies(robot: Robot) -> np.ndarray:
    return np.flatnonzero(np.asarray(robot.body_root) == (robot.torso or 0))


def _moved(columns: Columns, robot: Robot, axis: int, way: np.ndarray, speed: float) -> Columns:
    out, own = {name: column.copy() for name, column in columns.items()}, _own_bodies(robot)
    slide = robot.root.slide("xyz"[axis])
    if slide is not None:
        out["qpos"][:, slide.qpos] += slide.sign * way
        out["qvel"][:, slide.dof] += slide.sign * speed
    for name in ("xpos", "subtree_com"):
        if name in out:
            out[name][:, own, axis] += way[:, None]
    if "cvel" in out:
        out["cvel"][:, own, 3 + axis] += speed
    return out


def _tilted(columns: Columns, robot: Robot, axis: int) -> Columns:
    """Return the episode with the robot tilted about its torso. `axis` is 0 for x, 1 for y."""
    out, own = {name: column.copy() for name, column in columns.items()}, _own_bodies(robot)
    turn = about(axis, torch.tensor(_TILT_RAD, dtype=torch.float64))

    def turned(values: np.ndarray) -> np.ndarray:
        here = turn.expand(*values.shape[:-1], 4)
        return rotate(here, torch.tensor(values, dtype=torch.float64)).numpy()

    def composed(values: np.ndarray) -> np.ndarray:
        here = turn.expand(*values.shape)
        return multiply(here, torch.tensor(values, dtype=torch.float64)).numpy()

    middle = columns["xpos"][:, robot.torso or 0, None]
    for name in ("xpos", "subtree_com"):
        if name in out:
            out[name][:, own] = turned(columns[name][:, own] - middle) + middle
    out["xquat"][:, own] = composed(columns["xquat"][:, own])
    root = robot.root
    if root.quaternion is not None:
        place = slice(root.quaternion, root.quaternion + 4)
        out["qpos"][:, place] = composed(columns["qpos"][:, place])
    elif root.hinge is not None and root.hinge.axis == "xyz"[axis]:
        out["qpos"][:, root.hinge.qpos] += root.hinge.sign * _TILT_RAD
    if "cvel" in out:
        for part in (slice(0, 3), slice(3, 6)):
            out["cvel"][:, own, part] = turned(columns["cvel"][:, own, part])
    return out


def _lifted(columns: Columns, robot: Robot) -> Columns:
    out, foot = {name: column.copy() for name, column in columns.items()}, robot.feet[0]
    out["xpos"][:, foot, 2] += 0.3 * (robot.rest_height or 1.0)
    if robot.legs and robot.legs[0].qpos:
        out["qpos"][:, robot.legs[0].qpos[0]] += _LIFT_RAD
    for name in ("cfrc_ext", "contacts"):
        if name in out:
            out[name][:, foot] = 0.0
    return out


def _mirrored(columns: Columns, robot: Robot, axis: int) -> Columns:
    """Return the mirrored episode. `axis` is 0 for front to back and 1 for left to right."""
    root, out = robot.root, {name: column.copy() for name, column in columns.items()}
    along = np.ones(3)
    along[axis] = -1.0
    around = -along  # for rotations, the sign of the other two axes flips
    qpos, qvel = out["qpos"], out["qvel"]
    for slide in root.slides:
        if slide.axis == "xyz"[axis]:
            qpos[:, slide.qpos] = qpos[:, slide.qpos] * -1.0 - 2.0 * slide.sign * slide.offset
            qvel[:, slide.dof] *= -1.0
    if root.hinge is not None and around["xyz".index(root.hinge.axis)] < 0.0:
        qpos[:, root.hinge.qpos] *= -1.0
        qvel[:, root.hinge.dof] *= -1.0
    if root.quaternion is not None:
        qpos[:, root.quaternion + 1 : root.quaternion + 4] *= around
        if root.spin is not None:
            qvel[:, root.spin : root.spin + 3] *= around
    for name, factors in (
        ("xpos", along),
        ("subtree_com", along),
        ("xquat", np.concatenate(([1.0], around))),
        ("cvel", np.concatenate((around, along))),
        ("cfrc_ext", np.concatenate((around, along))),
    ):
        if name in out:
            out[name] = (out[name] * factors).astype(out[name].dtype)
    return out


def counts(
    originals: Sequence[Verdict], mutants: Sequence[Sequence[Verdict]]
) -> tuple[MutantCount, ...]:
    """Count the mutants that each criterion detected, given verdicts on originals and mutants.

    Credit is compared before gates, because a closed gate does not count as detection.
    """
    out: list[MutantCount] = []
    for place, first in enumerate(originals[0].criteria if originals else ()):
        caught = changed = total = 0
        for original, family in zip(originals, mutants, strict=True):
            whole = original.criteria[place] if place < len(original.criteria) else None
            own = [each.criteria[place] for each in family if place < len(each.criteria)]
            if whole is None or whole.credit < LOSES:
                continue
            total += len(own)
            caught += sum(each.credit <= whole.credit - LOSES for each in own)
            changed += sum(each.value != whole.value for each in own)
        out.append(MutantCount(criterion=first.title, caught=caught, changed=changed, total=total))
    return tuple(out)
