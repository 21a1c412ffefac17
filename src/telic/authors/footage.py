"""Contact sheets of recorded episodes for vision models.

A contact sheet shows frames from the whole episode, details of one stride or of the fastest motion,
the frames that decide the criteria, and foot heights over time. Frames of the whole episode are
spread over the gait phases, because uniform sampling would alias with the stride.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.criteria import Criterion
from telic.judges.episode import RecordedEpisode
from telic.llm.records import fingerprint
from telic.quantities import QUANTITIES
from telic.quantities.reference import describe_quantities
from telic.rendering import RenderJob, render
from telic.rendering.job import FootTrace, StillRow
from telic.rendering.replay import model_file
from telic.storage.trajectories import Environment, Trajectory, read_registered_trajectory

_WHOLE, _ROW = 12, 6
"""number of frames for the whole episode, and number per row"""
_PLACES, _POINTS = 8, 240
_STILL_M = 0.005
_GOLDEN = (5**0.5 - 1) / 2
_MIN_S, _MAX_S, _PERIODIC = 0.15, 2.0, 0.5
"""bounds of the stride period, and minimum autocorrelation of a periodic gait"""
_Part = tuple[float, float]


class Footage:
    """Recorded episode that can be rendered as contact sheets.

    Raises TelicError if the recording is missing, damaged or empty.
    """

    def __init__(self, episode: Path, folder: Path, environment: Environment | None = None) -> None:
        self.trajectory: Trajectory = read_registered_trajectory(episode, environment)
        if not len(self.trajectory):
            raise TelicError(f"{episode} contains no steps.")
        self._episode, self._folder = episode, folder
        self._name = f"{episode.stem}_{fingerprint(episode.read_bytes(), 8)}"
        self._dt_s = self.trajectory.facts.dt_s

    @cached_property
    def spec(self) -> EnvSpec:
        """Specification of the episode's environment."""
        facts = self.trajectory.facts
        env = make(facts.env_id, num_envs=1, **facts.env_kwargs)
        env.close()
        return env.spec

    def sheet(self, criteria: Sequence[Criterion] = ()) -> Path:
        """Render the contact sheet of the whole episode, and return its path."""
        length, words = len(self.trajectory), "the whole episode"
        period = self.period
        moments = self._spread(_WHOLE)
        if period is not None:
            words += f", spread over the phases of a stride of {period * (self._dt_s or 1.0):.2f} s"
        rows = [StillRow(words=words, steps=moments)]
        if period is not None:
            start = max(0, min(length // 2, length - period - 1))
            steps = np.unique((start + np.arange(_ROW) * period / _ROW).round())
            rows.append(StillRow(words="one stride, phase by phase", steps=_steps(steps)))
        elif length > _WHOLE:
            start = max(0, min(self.fastest - _ROW, length - 2 * _ROW))
            steps = start + 2 * np.arange(_ROW)
            rows.append(
                StillRow(words="the fastest motion, every second step", steps=_steps(steps))
            )
        if self._moves_in_space:
            oblique = self._spread(_ROW)
            words = "the whole episode, oblique view"
            rows.append(StillRow(words=words, steps=oblique, view="three-quarter"))
        if decisive := self.decisive(criteria):
            notes = tuple(f"criterion {number}" for number in decisive)
            rows.append(
                StillRow(
                    words="the decisive moments: the worst for constraints, the best for goals",
                    steps=tuple(decisive.values()),
                    notes=notes,
                )
            )
        return self._drawn(rows, "sheet")

    def close_up(self, window: _Part | None) -> Path:
        """Render a part of the episode from a closer camera at a finer time resolution."""
        length, dt_s = len(self.trajectory), self._dt_s or 1.0
        first, last = (0, length - 1) if window is None else (round(at / dt_s) - 1 for at in window)
        middle, half = (first + last) / 2, max((last - first) * 0.6, _WHOLE / 2)
        steps = np.clip(np.linspace(middle - half, middle + half, _WHOLE), 0, length - 1)
        words = f"close-up, with the camera also following vertically, from {steps[0] * dt_s:.2f} s"
        rows = [StillRow(words=words, steps=_steps(steps), near=True)]
        if self._moves_in_space:
            front = _steps(steps[::2])
            rows.append(StillRow(words="the same from the front", steps=front, view="front"))
        return self._drawn(rows, f"near{rows[0].steps[0]}-{rows[0].steps[-1]}")

    def quantity_of(self, criterion: Criterion) -> str | None:
        """Return the first known quantity that a criterion names, or None."""
        words = re.findall(r"\w+", criterion.quantity)
        return next((word for word in words if word in self._known), None)

    def decisive(self, criteria: Sequence[Criterion]) -> dict[int, int]:
        """Return the decisive step of each criterion with a known quantity, by criterion number."""
        episode, found = RecordedEpisode(self.trajectory, self.spec), dict[int, int]()
        for number, criterion in enumerate(criteria, 1):
            name = self.quantity_of(criterion)
            if name is None or len(found) == _ROW:
                continue
            values = episode[name].reshape(len(episode), -1)
            good = -values if criterion.direction == "at_most" else values
            if criterion.direction == "about":
                good = -np.abs(values - (criterion.goal or 0.0))
            must_hold = criterion.kind == "sustained"
            found[number] = int(good.min(1).argmin() if must_hold else good.max(1).argmax())
        return found

    @cached_property
    def period(self) -> int | None:
        """Stride period in environment steps, or None if the foot motion is not periodic."""
        feet = [self.spec.body_names.index(foot) for foot in self.spec.feet]
        places = self.trajectory.columns.get("xpos")
        if not feet or places is None or self._dt_s is None:
            return None
        torso = places[:, self.spec.body_names.index(self.spec.torso), :1]
        tracks = np.concatenate((places[:, feet, 2], places[:, feet, 0] - torso), axis=1)
        tracks = np.nan_to_num(tracks[len(tracks) // 4 :])
        tracks = tracks - tracks.mean(0)
        shortest, longest = (round(s / self._dt_s) for s in (_MIN_S, _MAX_S))
        longest = min(longest, len(tracks) // 2)
        power = float((tracks**2).sum())
        if longest <= shortest + 1 or power < _STILL_M**2 * tracks.size:
            return None
        lags = range(1, longest)
        same = np.array(
            [
                (tracks[lag:] * tracks[:-lag]).sum() * len(tracks) / (len(tracks) - lag)
                for lag in lags
            ]
        )
        same = same / power
        peaks = [
            lag
            for lag in range(max(shortest, 2), longest - 1)
            if same[lag - 1] >= max(same[lag - 2], same[lag], _PERIODIC)
        ]
        return peaks[0] if peaks else None

    def _spread(self, count: int) -> tuple[int, ...]:
        """Return steps from the whole episode that are evenly distributed over the gait phases."""
        last = len(self.trajectory) - 1
        evenly = np.linspace(0, last, count)
        if self.period is not None and self.period < last / 2:
            phases = np.arange(count) * _GOLDEN % 1.0
            ahead = (phases - evenly / self.period) % 1.0
            evenly = evenly + (ahead - 0.5) * self.period
        return _steps(np.sort(np.clip(evenly, 0, last)))

    @cached_property
    def fastest(self) -> int:
        """Middle step of the window with the fastest body motion, ignoring the overall travel."""
        places = self.trajectory.columns.get("xpos")
        if places is None or len(places) < 2:
            return len(self.trajectory) // 2
        travel = places.mean(1, keepdims=True) * (1.0, 1.0, 0.0)
        moved = np.linalg.norm(np.diff(np.nan_to_num(places - travel), axis=0), axis=-1).mean(1)
        window = np.ones(min(_WHOLE, len(moved)))
        return int(np.convolve(moved, window, mode="valid").argmax()) + len(window) // 2

    @cached_property
    def _known(self) -> set[str]:
        """Names of the known quantities, without arguments such as a body, joint or point."""
        known = describe_quantities(self.spec)
        return {each.name for each in known if not QUANTITIES[each.name].arguments}

    @property
    def _moves_in_space(self) -> bool:
        """Return True if the robot has a free root, which a single camera view does not show."""
        robot = self.spec.robot
        is_free = robot is not None and robot.root.kind == "free"
        return is_free and model_file(self.trajectory.facts) is not None

    def places(self) -> str:
        """Describe the torso position over time, which the tracking camera does not show."""
        spec, dt_s = self.spec, self._dt_s
        if dt_s is None or spec.torso not in spec.body_names or "xpos" not in self.trajectory:
            return ""
        track = self.trajectory["xpos"][:, spec.body_names.index(spec.torso)]  # (T, 3)
        away = track - track[0]
        if np.abs(away).max() < _STILL_M:
            return "Measured: its torso stayed in place."
        rows = np.unique(np.linspace(0, len(track) - 1, _PLACES).round().astype(int))
        sideways = np.abs(away[:, 1]).max() >= _STILL_M
        shown = "; ".join(
            f"{(row + 1) * dt_s:.2f} s {away[row, 0]:+.2f}"
            f"{f' {away[row, 1]:+.2f}' if sideways else ''} {track[row, 2]:.2f}"
            for row in rows
        )
        axes = (
            "x and y relative to the start, and z" if sideways else "x relative to the start, and z"
        )
        top, bottom = int(track[:, 2].argmax()), int(track[:, 2].argmin())
        return (
            f"Measured torso position, {axes} (m): {shown}. Highest at {(top + 1) * dt_s:.2f} s "
            f"({track[top, 2]:.2f} m), lowest at {(bottom + 1) * dt_s:.2f} s "
            f"({track[bottom, 2]:.2f} m)."
        )

    def _traces(self) -> tuple[FootTrace, ...]:
        if not {"foot_height", "foot_contact"} <= self._known or self._dt_s is None:
            return ()
        episode = RecordedEpisode(self.trajectory, self.spec)
        rows = np.linspace(0, len(episode) - 1, min(_POINTS, len(episode))).round().astype(int)
        heights, touches = episode["foot_height"][rows], episode["foot_contact"][rows] > 0.5
        return tuple(
            FootTrace(
                name=name,
                heights_m=tuple(np.nan_to_num(heights[:, foot]).tolist()),
                touches=tuple(touches[:, foot].tolist()),
                seconds=episode.seconds,
            )
            for foot, name in enumerate(self.spec.feet)
        )

    def _drawn(self, rows: Sequence[StillRow], name: str) -> Path:
        """Render a contact sheet unless its file exists. Raises TelicError if rendering fails."""
        path = self._folder / f"{self._name}_{name}.png"
        env, env_args = self.trajectory.facts.environment
        if not path.exists():
            job = RenderJob(
                trajectory=self._episode,
                output=path,
                env=env,
                env_args=env_args,
                rows=tuple(rows),
                traces=self._traces(),
            )
            for drawing in render([job]):
                if drawing.error:
                    raise TelicError(f"The episode cannot be rendered: {drawing.error}")
        return path


def _steps(moments: np.ndarray) -> tuple[int, ...]:
    return tuple(np.round(moments).astype(int).tolist())
