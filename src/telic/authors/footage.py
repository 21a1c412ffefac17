"""Sheets of still pictures of an episode, with the time on each: what the vision judge looks at.

A sheet's file is named after the content of the episode and what it shows, so it is drawn once.
Nothing on it tells how the episode was rewarded or judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.llm import Image
from telic.llm.records import VIDEO, fingerprint
from telic.rendering import RenderJob, render
from telic.rendering.jobs import View
from telic.rendering.replay import model_file
from telic.storage.trajectories import Trajectory, read_trajectory

_FRAMES, _COLUMNS = 24, 6
_FEW = 12
# An environment that draws itself chooses the size of its pictures, which is large.
_OWN_COLUMNS = 3
_MOST_WINDOWS = 3
_PLACES = 8
_STILL_M = 0.005


@dataclass(frozen=True, slots=True)
class Sheet:
    """One picture of several moments of an episode."""

    path: Path
    words: str

    @property
    def image(self) -> Image:
        """Return the picture as a model takes it."""
        kind = VIDEO if self.path.suffix == ".mp4" else "image/png"
        return Image(data=self.path.read_bytes(), media_type=kind)


class Footage:
    """A recorded episode, and the sheets that can be drawn of it.

    Raises TelicError when the file is missing, damaged or empty.
    """

    def __init__(self, episode: Path, folder: Path) -> None:
        self.trajectory: Trajectory = read_trajectory(episode)
        if not len(self.trajectory):
            raise TelicError(f"{episode} holds no steps to look at.")
        self._episode = episode
        self._base = folder / f"{episode.stem}_{fingerprint(episode.read_bytes(), 8)}"
        self._has_model = model_file(self.trajectory.facts) is not None

    @cached_property
    def spec(self) -> EnvSpec:
        """Return the description of the episode's environment."""
        facts = self.trajectory.facts
        env = make(facts.env_id, num_envs=1, **facts.env_kwargs)
        env.close()
        return env.spec

    def overview(self) -> list[Sheet]:
        """Return the whole episode, from two sides, and its middle step by step."""
        if not self._has_model:
            return self._draw([self._own(part) for part in self._halves()])
        shots = [
            _Shot("the whole episode", _FRAMES),
            _Shot("the whole episode, seen obliquely", _FEW, view="three-quarter"),
        ]
        if len(self.trajectory) > _FRAMES and self._dt_s is not None:
            middle = self._widened((self._length_s / 2, self._length_s / 2), _FEW)
            shots.append(_Shot("its middle, every step", _FEW, middle))
        return self._draw(shots)

    def film(self) -> Sheet:
        """Return the whole episode as a video, for a model that watches videos."""
        shot = _Shot("a video of the whole episode in real time, with the time in it", 1)
        return self._draw([shot], suffix=".mp4")[0]

    def close_ups(self, windows: Sequence[tuple[float, float] | None]) -> list[Sheet]:
        """Return parts of the episode with as many pictures as an overview has of all of it.

        None stands for the whole. A short part is widened to a sheet of single steps.
        """
        parts = [self._widened(each) for each in windows if each is not None]
        if None in windows or not parts:
            parts = [*self._halves(), *parts]
        parts = list(dict.fromkeys(parts))[:_MOST_WINDOWS]
        if not self._has_model:
            return self._draw([self._own(part) for part in parts])
        return self._draw([_Shot(_between(part), _FRAMES, part) for part in parts])

    def places(self) -> str:
        """Return where the robot was over time, which a camera that follows it does not show."""
        spec, dt_s = self.spec, self._dt_s
        if dt_s is None or spec.torso not in spec.body_names or "xpos" not in self.trajectory:
            return ""
        track = self.trajectory["xpos"][:, spec.body_names.index(spec.torso)]  # (T, 3)
        away = track[:, :2] - track[0, :2]
        if np.abs(away).max() < _STILL_M:
            return "The robot's torso did not leave its place."
        rows = np.unique(np.linspace(0, len(track) - 1, _PLACES).round().astype(int))
        lines = [
            f"- {(row + 1) * dt_s:.2f} s: {_metres(away[row, 0], 'forward', 'back')}, "
            f"{_metres(away[row, 1], 'left', 'right')}"
            for row in rows
        ]
        return "\n".join(
            (
                "The camera follows a robot that travels. Measured from its first place, "
                "the torso was:",
                "",
                *lines,
            )
        )

    @property
    def _dt_s(self) -> float | None:
        return self.trajectory.facts.dt_s

    @property
    def _length_s(self) -> float:
        return self.trajectory.duration_s or 0.0

    def _halves(self) -> list[tuple[float, float]]:
        middle = self._length_s / 2
        return [(0.0, middle), (middle, self._length_s)]

    def _widened(self, window: tuple[float, float], frames: int = _FRAMES) -> tuple[float, float]:
        """Return a part of the episode that holds a window and at least `frames` steps."""
        length, dt_s = self._length_s, self._dt_s or 1.0
        start, end = (min(max(each, 0.0), length) for each in window)
        wide = min(max(1.2 * (end - start), (frames - 1) * dt_s), length)
        start = min(max((start + end - wide) / 2, 0.0), length - wide)
        # At whole steps, so that a short part is shown step by step.
        start = round(start / dt_s) * dt_s
        return start, min(start + round(wide / dt_s) * dt_s, length)

    def _own(self, part: tuple[float, float]) -> _Shot:
        words = _between(part) if self._dt_s is not None else "the whole episode"
        return _Shot(words, _FEW, part, columns=_OWN_COLUMNS)

    def _draw(self, shots: Sequence[_Shot], suffix: str = ".png") -> list[Sheet]:
        """Draw what is not yet there; raises TelicError when it cannot be drawn."""
        sheets = {self._path(shot).with_suffix(suffix): shot for shot in shots}
        jobs = [shot.job(self._episode, path) for path, shot in sheets.items() if not path.exists()]
        for made in render(jobs):
            if made.error:
                raise TelicError(f"The episode cannot be drawn: {made.error}")
        return [Sheet(path, shot.words) for path, shot in sheets.items()]

    def _path(self, shot: _Shot) -> Path:
        window = "all" if shot.window is None else "-".join(f"{each:.2f}" for each in shot.window)
        name = f"{self._base.name}_{shot.view or 'usual'}_{window}.png"
        return self._base.with_name(name)


@dataclass(frozen=True, slots=True)
class _Shot:
    """One sheet to draw."""

    words: str
    frames: int
    window: tuple[float, float] | None = None
    view: View | None = None
    columns: int = _COLUMNS

    def job(self, episode: Path, output: Path) -> RenderJob:
        return RenderJob(
            trajectory=episode,
            output=output,
            frames=self.frames,
            columns=self.columns,
            between_s=self.window,
            view=self.view,
            caption="time",
        )


def _between(part: tuple[float, float]) -> str:
    return f"from {part[0]:.2f} s to {part[1]:.2f} s"


def _metres(distance: float, ahead: str, behind: str) -> str:
    return f"{abs(distance):.2f} m {ahead if distance >= 0 else behind}"
