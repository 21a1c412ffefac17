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
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from telic.core.config import Record
from telic.core.seeds import derive
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.criteria import Criterion, Leaf
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
"""change of a quantity, in parts of its size, that nobody can overlook"""
_TINY = 1e-9
_VELOCITIES = ("qvel", "cvel")
Columns = Mapping[str, np.ndarray]


class MutantCount(Record):
    """How many mutants a criterion noticed."""

    criterion: str
    caught: int
    """mutants that lost credit"""
    changed: int | None
    """mutants that changed what it measures, as measured by the host; None: cannot be told"""
    total: int
    """mutants of episodes that had earned credit"""


def mutants_of(trajectory: Trajectory, spec: EnvSpec) -> dict[str, Trajectory]:
    """Return the mutants of an episode, by what was done to it."""
    columns, count = trajectory.columns, len(trajectory)
    random = np.random.default_rng(derive("mutants", count))
    changes: dict[str, Callable[[], Columns]] = {
        FROZEN: lambda: _still(_rows(columns, np.zeros(count, dtype=int))),
        CUT: lambda: _ended(_rows(columns, np.arange(max(1, int(_CUT_SHARE * count))))),
        "slowed down": lambda: _scaled(_rows(columns, np.arange(count) // _SLOWER), 1.0 / _SLOWER),
        "reversed": lambda: _scaled(_rows(columns, np.arange(count)[::-1]), -1.0),
        "shuffled": lambda: _rows(columns, random.permutation(count)),
    }
    if spec.robot is not None and "qpos" in columns and "qvel" in columns:
        moves = spec.robot.root.moves
        if "y" in moves:
            changes["mirrored left to right"] = lambda: _mirrored(columns, spec, 1)
        if "x" in moves:
            changes["mirrored front to back"] = lambda: _mirrored(columns, spec, 0)
    return {name: Trajectory(change(), trajectory.facts) for name, change in changes.items()}


def _rows(columns: Columns, rows: np.ndarray) -> Columns:
    """Return other rows of what the robot did; what it was told at each moment stays."""
    return {
        name: np.ascontiguousarray(column[: len(rows)] if name in COMMANDS else column[rows])
        for name, column in columns.items()
    }


def _scaled(columns: Columns, factor: float) -> Columns:
    return {
        name: column * np.asarray(factor, dtype=column.dtype) if name in _VELOCITIES else column
        for name, column in columns.items()
    }


def _still(columns: Columns) -> Columns:
    """Return states that do not change, without velocities and without an end."""
    still = _scaled(columns, 0.0)
    return {
        name: np.zeros_like(column) if name == "terminated" else column
        for name, column in still.items()
    }


def _ended(columns: Columns) -> Columns:
    ended = columns["terminated"].copy()
    ended[-1] = True
    return {**columns, "terminated": ended}


def _mirrored(columns: Columns, spec: EnvSpec, axis: int) -> Columns:
    """Return the episode as a mirror shows it; `axis` 0 is front to back, 1 left to right."""
    assert spec.robot is not None  # only robots are mirrored
    root, out = spec.robot.root, {name: column.copy() for name, column in columns.items()}
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


# --------------------------------------------------------------------------------- what they show


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
    titles = [leaf.title for leaf in originals[0][1].leaves] if originals else []
    families = [[verdict for _, verdict in family.values()] for family in mutants]
    episodes = [
        [whole, *(mutant for mutant, _ in family.values())]
        for (whole, _), family in zip(originals, mutants, strict=True)
    ]
    seen = _measured_together(episodes, spec)
    out: list[MutantCount] = []
    for place, title in enumerate(titles):
        caught = changed = total = 0
        names = _named(title, criteria)
        for (_, verdict), verdicts, (whole, *others) in zip(originals, families, seen, strict=True):
            before = _leaf(verdict, place)
            if before is None or before.counted < _LOSES:
                continue
            for after, mutant in zip(verdicts, others, strict=True):
                now = _leaf(after, place)
                total += 1
                caught += now is None or now.counted <= before.counted - _LOSES
                if _are_measured(names):
                    changed += _is_changed(whole, mutant, names)
        out.append(
            MutantCount(
                criterion=title,
                caught=caught,
                changed=changed if _are_measured(names) else None,
                total=total,
            )
        )
    return tuple(out)


def _leaf(verdict: Verdict, place: int) -> Leaf | None:
    return verdict.leaves[place] if place < len(verdict.leaves) else None


def _are_measured(names: frozenset[str]) -> bool:
    """Say whether the host can measure these; not those of a body whose name code makes up."""
    return bool(names) and not any(QUANTITIES[name].arguments for name in names)


def _measured_together(
    families: Sequence[Sequence[Trajectory]], spec: EnvSpec
) -> list[list[RecordedEpisode]]:
    """Return episodes whose quantities are measured once each, and all in one go."""
    together = MeasuredTogether([each for family in families for each in family], spec)
    places = itertools.count()
    return [
        [RecordedEpisode(each, spec, among=(together, next(places))) for each in family]
        for family in families
    ]


def _is_changed(before: RecordedEpisode, after: RecordedEpisode, names: frozenset[str]) -> bool:
    """Say whether a mutant changed the mean, or what came of it, of a quantity beyond doubt."""
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


def _named(title: str, criteria: Sequence[Criterion]) -> frozenset[str]:
    """Return the quantities that the criterion behind a title names."""
    own = (each for each in criteria if title.lower().startswith(each.title.lower()))
    words = next((each.quantity for each in own), "")
    return frozenset(re.findall(r"\w+", words)) & QUANTITIES.keys()
