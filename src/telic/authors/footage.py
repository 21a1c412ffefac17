"""Contact sheets of recorded episodes for vision models.

A contact sheet shows frames from the whole episode, details of one stride or of the longest flight,
the frames that decide the criteria, and foot heights over time. Frames of the whole episode are
spread over the gait phases, because uniform sampling would alias with the stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.episode import RecordedEpisode
from telic.judges.measured import NO_CRITERIA, JudgeFile, deciding_steps, value_of
from telic.llm.records import fingerprint
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

    def sheet(self, judge: JudgeFile = NO_CRITERIA) -> Path:
        """Render the contact sheet of the whole episode and return its path."""
        length, words = len(self.trajectory), "the whole episode"
        period, flight = self.period, self.flight
        moments = self._spread(_WHOLE)
        if period is not None:
            words += f", spread over the phases of a stride of {period * (self._dt_s or 1.0):.2f} s"
        rows = [StillRow(words=words, steps=moments)]
        if period is not None:
            start = max(0, min(length // 2, length - period - 1))
            steps = np.unique((start + np.arange(_ROW) * period / _ROW).round())
            rows.append(StillRow(words="one stride, phase by phase", steps=_steps(steps)))
        elif flight is not None:
            steps = np.unique(np.linspace(flight[0] - 1, flight[1] + 1, _ROW).round())
            words = "the longest time without contact, from take-off to landing"
            rows.append(StillRow(words=words, steps=_steps(steps.clip(0, length - 1))))
        if self._moves_in_space:
            oblique = self._spread(_ROW)
            words = "the whole episode, oblique view"
            rows.append(StillRow(words=words, steps=oblique, view="three-quarter"))
        events: dict[int, list[str]] = {}
        for number, steps in deciding_steps(judge, self.episode).items():
            for step, what in steps.items():
                events.setdefault(step, []).append(what if number == 0 else f"{number}: {what}")
        if events:
            shown = sorted(events)[:_WHOLE]
            notes = tuple(", ".join(events[step]) for step in shown)
            words = "the moments at which the numbered criteria are decided"
            rows.append(StillRow(words=words, steps=tuple(shown), notes=notes))
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

    @cached_property
    def episode(self) -> RecordedEpisode:
        """The episode with its quantities."""
        return RecordedEpisode(self.trajectory, self.spec)

    @cached_property
    def flight(self) -> _Part | None:
        """First and last step of the longest time without contact, or None if it is short."""
        share = value_of("flight_share", self.episode)  # of the steps so far
        flown = np.diff(share * np.arange(1, len(share) + 1), prepend=0.0) > 0.5
        flying = np.concatenate(([False], flown, [False]))
        runs = np.flatnonzero(np.diff(flying)).reshape(-1, 2).tolist()
        first, end = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
        return (first, end - 1) if (end - first) * self.episode.dt >= _MIN_S else None

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
            ahead = (np.arange(count) * _GOLDEN % 1.0 - evenly / self.period) % 1.0
            evenly = evenly + (ahead - 0.5) * self.period
        return _steps(np.sort(np.clip(evenly, 0, last)))

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
        return f"Measured torso position, {axes} (m): {shown}."

    def _traces(self) -> tuple[FootTrace, ...]:
        known = {each.name for each in describe_quantities(self.spec)}
        if not {"foot_height", "foot_contact"} <= known or self._dt_s is None:
            return ()
        episode = self.episode
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
