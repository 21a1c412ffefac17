"""A recorded episode as pictures for a model: sheets of stills, close-ups, a film.

The usual view follows a robot that travels, but not up and down, and heights are marked, so that a
jump is seen as one. Every further look shows other moments from other sides: the same pictures
would say the same again.
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
from telic.rendering.job import View
from telic.rendering.replay import model_file
from telic.storage.trajectories import Environment, Trajectory, read_evidence

LOOKS = 3
"""times that the same episode can be looked at with other pictures each time"""
_NEARLY_ALL = 0.9
"""share of their time that two parts have in common when one sheet shows both"""
_CLOSELY = "closely, the camera following up and down too"
_FRAMES, _COLUMNS = 24, 6
_FEW = 12
# An environment that draws itself chooses the size of its pictures, which is large.
_OWN_COLUMNS = 3
_OWN_PARTS = 3
_MOST_WINDOWS, _PLACES = 2, 8
_STILL_M = 0.005
_SIDES: dict[View, str] = {
    "three-quarter": "seen obliquely",
    "rear-quarter": "seen obliquely from behind",
    "front": "seen from the front",
}
# From the front, the limbs of a robot that moves in a vertical plane hide one another.
_FLAT_SIDES: tuple[View, ...] = ("three-quarter", "rear-quarter")


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

    def __init__(self, episode: Path, folder: Path, environment: Environment | None = None) -> None:
        self.trajectory: Trajectory = read_evidence(episode, environment)
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

    def overviews(self, looks: int = 1) -> list[list[Sheet]]:
        """Return the whole episode, from two sides, and its fastest motion step by step.

        Each look shows other moments, and another second side.
        """
        return self._drawn([self._overview(look) for look in range(looks)])

    def _overview(self, look: int) -> list[_Shot]:
        shift = look % LOOKS / LOOKS
        if not self._has_model:
            return self._own(self._parts(2), shift)
        side = self._side(look)
        shots = [
            _Shot("the whole episode", _FRAMES, shift=shift),
            _Shot(f"the whole episode, {_SIDES[side]}", _FEW, view=side, shift=shift),
        ]
        if len(self.trajectory) > _FRAMES and self._dt_s is not None:
            fastest = self._widened((self.fastest_s, self.fastest_s), _FEW)
            words = f"its fastest motion, every step {_between(fastest)}"
            shots.append(_Shot(words, _FEW, fastest))
        return shots

    def film(self) -> Sheet:
        """Return the whole episode as a video, for a model that watches videos."""
        shot = _Shot("a video of the whole episode in real time, with the time in it", 1)
        return self._draw([shot], suffix=".mp4")[0]

    def close_ups(
        self, windows: Sequence[tuple[float, float] | None], looks: int = 1
    ) -> list[list[Sheet]]:
        """Return parts of the episode as nothing was shown before: nearer, and from another side.

        None stands for the whole. A short part is widened to a sheet of single steps. Each look
        shows other moments.
        """
        return self._drawn([self._close_up(windows, look) for look in range(looks)])

    def _close_up(self, windows: Sequence[tuple[float, float] | None], look: int) -> list[_Shot]:
        parts = [self._widened(window) for window in windows if window is not None]
        is_whole = None in windows or not parts
        if not self._has_model:
            # It has one view only, so that other moments are all that can be new.
            parts = self._parts(_OWN_PARTS) if is_whole else parts
            return self._own(parts, (look % LOOKS + 0.5) / LOOKS)
        parts = [*self._parts(2), *parts] if is_whole else parts
        parts = _distinct(parts)[:_MOST_WINDOWS]
        shift = look % LOOKS / LOOKS
        other = self._side(look + 1)
        near = [
            _Shot(f"{_CLOSELY}, {_between(part)}", _FRAMES, part, shift=shift, is_near=True)
            for part in parts
        ]
        whole = (min(part[0] for part in parts), max(part[1] for part in parts))
        words = f"{_SIDES[other]}, {_between(whole)}"
        return [*near, _Shot(words, _FEW, whole, view=other, shift=shift)]

    @cached_property
    def fastest_s(self) -> float:
        """Return the middle of the time in which the body moves most, its travel left out."""
        places = self.trajectory.columns.get("xpos")
        dt_s = self._dt_s or 1.0
        if places is None or len(places) < 2:
            return self._length_s / 2
        travel = places.mean(1, keepdims=True) * (1.0, 1.0, 0.0)
        moved = np.linalg.norm(np.diff(np.nan_to_num(places - travel), axis=0), axis=-1).mean(1)
        window = np.ones(min(_FEW, len(moved)))
        inside = np.convolve(moved, window, mode="valid")
        first = int(inside.argmax())
        return (first + 1 + len(window) / 2) * dt_s

    def places(self) -> str:
        """Return where the robot was over time, which a camera that follows it does not show."""
        spec, dt_s = self.spec, self._dt_s
        if dt_s is None or spec.torso not in spec.body_names or "xpos" not in self.trajectory:
            return ""
        track = self.trajectory["xpos"][:, spec.body_names.index(spec.torso)]  # (T, 3)
        away = track - track[0]
        if np.abs(away).max() < _STILL_M:
            return "The robot's torso did not leave its place."
        rows = np.unique(np.linspace(0, len(track) - 1, _PLACES).round().astype(int))
        lines = [
            f"- {(row + 1) * dt_s:.2f} s: {_metres(away[row, 0], 'forward', 'back')}, "
            f"{_metres(away[row, 1], 'left', 'right')}, {track[row, 2]:.2f} m high"
            for row in rows
        ]
        head = (
            "The camera follows a robot that travels across the floor, not up and down. Measured, "
            "the torso was, from its first place:"
        )
        top, bottom = int(track[:, 2].argmax()), int(track[:, 2].argmin())
        ends = (
            f"Its torso was highest at {(top + 1) * dt_s:.2f} s ({track[top, 2]:.2f} m) and lowest "
            f"at {(bottom + 1) * dt_s:.2f} s ({track[bottom, 2]:.2f} m)."
        )
        return "\n".join((head, "", *lines, "", ends))

    def _side(self, look: int) -> View:
        """Return the second side from which a look sees the episode."""
        robot = self.spec.robot
        is_flat = robot is not None and robot.root.kind == "planar"
        sides = _FLAT_SIDES if is_flat else tuple(_SIDES)
        return sides[look % len(sides)]

    @property
    def _dt_s(self) -> float | None:
        return self.trajectory.facts.dt_s

    @property
    def _length_s(self) -> float:
        return self.trajectory.duration_s or 0.0

    def _parts(self, count: int) -> list[tuple[float, float]]:
        """Return the episode in so many parts of one length."""
        long = self._length_s / count
        return [(number * long, (number + 1) * long) for number in range(count)]

    def _widened(self, window: tuple[float, float], frames: int = _FRAMES) -> tuple[float, float]:
        """Return a part of the episode that holds a window and at least `frames` steps."""
        length, dt_s = self._length_s, self._dt_s or 1.0
        start, end = (min(max(moment, 0.0), length) for moment in window)
        wide = min(max(1.2 * (end - start), (frames - 1) * dt_s), length)
        start = min(max((start + end - wide) / 2, 0.0), length - wide)
        # At whole steps, so that a short part is shown step by step.
        start = round(start / dt_s) * dt_s
        return start, min(start + round(wide / dt_s) * dt_s, length)

    def _own(self, parts: Sequence[tuple[float, float]], shift: float) -> list[_Shot]:
        """Return the sheets of an environment that draws itself; without a clock there is one."""
        has_clock = self._dt_s is not None
        shots = [
            _Shot(
                _between(part) if has_clock else "the whole episode",
                _FEW,
                part if has_clock else None,
                columns=_OWN_COLUMNS,
                shift=shift,
            )
            for part in parts
        ]
        return list(dict.fromkeys(shots))

    def _drawn(self, looks: Sequence[Sequence[_Shot]]) -> list[list[Sheet]]:
        """Draw the sheets of several looks in one go."""
        drawn = iter(self._draw([shot for shots in looks for shot in shots]))
        return [[next(drawn) for _ in shots] for shots in looks]

    def _draw(self, shots: Sequence[_Shot], suffix: str = ".png") -> list[Sheet]:
        """Draw what is not yet there; raises TelicError when it cannot be drawn."""
        sheets = [Sheet(self._path(shot).with_suffix(suffix), shot.words) for shot in shots]
        wanted = {sheet.path: shot for sheet, shot in zip(sheets, shots, strict=True)}
        env, env_args = self.trajectory.facts.environment
        jobs = [shot.job(self._episode, path) for path, shot in wanted.items() if not path.exists()]
        asked = {"env": env, "env_args": env_args}
        for drawing in render([job.model_copy(update=asked) for job in jobs]):
            if drawing.error:
                raise TelicError(f"The episode cannot be drawn: {drawing.error}")
        return sheets

    def _path(self, shot: _Shot) -> Path:
        window = "-".join(f"{moment:.2f}" for moment in shot.window or ()) or "all"
        parts = [self._base.name, shot.view or "usual", window]
        parts += ["near"] if shot.is_near else []
        parts += [f"shift{shot.shift:.2f}"] if shot.shift else []
        return self._base.with_name(f"{'_'.join(parts)}.png")


@dataclass(frozen=True, slots=True)
class _Shot:
    """One sheet to draw."""

    words: str
    frames: int
    window: tuple[float, float] | None = None
    view: View | None = None
    columns: int = _COLUMNS
    shift: float = 0.0
    is_near: bool = False

    def job(self, episode: Path, output: Path) -> RenderJob:
        return RenderJob(
            trajectory=episode,
            output=output,
            frames=self.frames,
            columns=self.columns,
            between_s=self.window,
            view=self.view,
            shift=self.shift,
            near=self.is_near,
            ruler=True,
            caption="time",
        )


def _distinct(parts: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return parts that are not nearly the same time as one before."""
    kept: list[tuple[float, float]] = []
    for start, end in parts:
        shared = (
            (min(end, other[1]) - max(start, other[0]))
            / (max(end, other[1]) - min(start, other[0]))
            for other in kept
        )
        if all(share < _NEARLY_ALL for share in shared):
            kept.append((start, end))
    return kept


def _between(part: tuple[float, float]) -> str:
    return f"from {part[0]:.2f} s to {part[1]:.2f} s"


def _metres(distance: float, ahead: str, behind: str) -> str:
    return f"{abs(distance):.2f} m {ahead if distance >= 0 else behind}"
