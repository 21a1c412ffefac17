"""A recorded episode as pictures for a model: sheets of stills, close-ups, a video.

The usual view follows a robot that travels, but not up and down, and heights are marked, so that a
jump is visible. Every further look shows other moments from other sides, because the same pictures
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
"""looks at the same episode that have other pictures each time"""
_NEARLY_ALL = 0.9
"""share of their time that two parts have in common when one sheet shows both"""
_FRAMES, _COLUMNS = 24, 6
_FEW = 12
# An environment that draws itself chooses the size of its pictures, which is large.
_OWN_COLUMNS, _OWN_PARTS = 3, 3
_MOST_WINDOWS, _PLACES = 2, 8
_STILL_M = 0.005
_SIDES: dict[View, str] = {
    "three-quarter": "seen obliquely",
    "rear-quarter": "seen obliquely from behind",
    "front": "seen from the front",
}
# From the front, the limbs of a robot that moves in a vertical plane hide one another.
_FLAT_SIDES: tuple[View, ...] = ("three-quarter", "rear-quarter")
_Part = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One picture of several moments of an episode."""

    path: Path
    words: str

    @property
    def image(self) -> Image:
        """Return the picture as part of a request."""
        kind = VIDEO if self.path.suffix == ".mp4" else "image/png"
        return Image(data=self.path.read_bytes(), media_type=kind)


@dataclass(frozen=True, slots=True)
class _Shot:
    """One sheet to draw."""

    words: str
    frames: int
    window: _Part | None = None
    view: View | None = None
    columns: int = _COLUMNS
    shift: float = 0.0
    is_near: bool = False


class Footage:
    """A recorded episode, and the sheets that can be drawn of it.

    Raises TelicError when the file is missing, damaged or empty.
    """

    def __init__(self, episode: Path, folder: Path, environment: Environment | None = None) -> None:
        self.trajectory: Trajectory = read_evidence(episode, environment)
        if not len(self.trajectory):
            raise TelicError(f"{episode} holds no steps to look at.")
        self._episode, self._folder = episode, folder
        self._name = f"{episode.stem}_{fingerprint(episode.read_bytes(), 8)}"
        self._has_model = model_file(self.trajectory.facts) is not None
        self._dt_s = self.trajectory.facts.dt_s
        self._length_s = self.trajectory.duration_s or 0.0

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
        found: list[list[_Shot]] = []
        for look in range(looks):
            shift = look % LOOKS / LOOKS
            if not self._has_model:
                found.append(self._own(self._parts(2), shift))
                continue
            side, words = self._side(look), "the whole episode"
            shots = [
                _Shot(words, _FRAMES, shift=shift),
                _Shot(f"{words}, {_SIDES[side]}", _FEW, view=side, shift=shift),
            ]
            if len(self.trajectory) > _FRAMES and self._dt_s is not None:
                fastest = self._widened((self.fastest_s, self.fastest_s), _FEW)
                words = f"its fastest motion, every step {_between(fastest)}"
                shots.append(_Shot(words, _FEW, fastest))
            found.append(shots)
        return self._drawn(found)

    def video(self) -> Sheet:
        """Return the whole episode as a video, for a model that accepts videos."""
        shot = _Shot("a video of the whole episode in real time, with the time in it", 1)
        return self._drawn([[shot]], ".mp4")[0][0]

    def close_ups(self, windows: Sequence[_Part | None], looks: int = 1) -> list[list[Sheet]]:
        """Return parts of the episode as in no overview: nearer, and from another side.

        None stands for the whole. A short part is widened to a sheet of single steps. Each look
        shows other moments.
        """
        parts = [self._widened(window) for window in windows if window is not None]
        is_whole = None in windows or not parts
        found: list[list[_Shot]] = []
        for look in range(looks):
            if not self._has_model:
                # It has one view only, so that only other moments can be new.
                own = self._parts(_OWN_PARTS) if is_whole else parts
                found.append(self._own(own, (look % LOOKS + 0.5) / LOOKS))
                continue
            near = _distinct([*self._parts(2), *parts] if is_whole else parts)[:_MOST_WINDOWS]
            shift, other = look % LOOKS / LOOKS, self._side(look + 1)
            closely = "closely, the camera following up and down too"
            shots = [
                _Shot(f"{closely}, {_between(part)}", _FRAMES, part, shift=shift, is_near=True)
                for part in near
            ]
            whole = (min(part[0] for part in near), max(part[1] for part in near))
            words = f"{_SIDES[other]}, {_between(whole)}"
            found.append([*shots, _Shot(words, _FEW, whole, view=other, shift=shift)])
        return self._drawn(found)

    @cached_property
    def fastest_s(self) -> float:
        """Return the middle of the time in which the body moves most, its travel left out."""
        places = self.trajectory.columns.get("xpos")
        if places is None or len(places) < 2:
            return self._length_s / 2
        travel = places.mean(1, keepdims=True) * (1.0, 1.0, 0.0)
        moved = np.linalg.norm(np.diff(np.nan_to_num(places - travel), axis=0), axis=-1).mean(1)
        window = np.ones(min(_FEW, len(moved)))
        first = int(np.convolve(moved, window, mode="valid").argmax())
        return (first + 1 + len(window) / 2) * (self._dt_s or 1.0)

    def places(self) -> str:
        """Return where the robot was over time, which a camera that follows it does not show."""
        spec, dt_s = self.spec, self._dt_s
        if dt_s is None or spec.torso not in spec.body_names or "xpos" not in self.trajectory:
            return ""
        track = self.trajectory["xpos"][:, spec.body_names.index(spec.torso)]  # (T, 3)
        away = track - track[0]
        if np.abs(away).max() < _STILL_M:
            return "The robot's torso did not leave its place."
        lines = [
            "The camera follows a robot that travels across the floor, not up and down. Measured, "
            "the torso was, from its first place:",
            "",
        ]
        for row in np.unique(np.linspace(0, len(track) - 1, _PLACES).round().astype(int)):
            ahead, left = away[row, 0], away[row, 1]
            lines.append(
                f"- {(row + 1) * dt_s:.2f} s: {abs(ahead):.2f} m "
                f"{'forward' if ahead >= 0 else 'back'}, {abs(left):.2f} m "
                f"{'left' if left >= 0 else 'right'}, {track[row, 2]:.2f} m high"
            )
        top, bottom = int(track[:, 2].argmax()), int(track[:, 2].argmin())
        highest = f"highest at {(top + 1) * dt_s:.2f} s ({track[top, 2]:.2f} m)"
        lowest = f"lowest at {(bottom + 1) * dt_s:.2f} s ({track[bottom, 2]:.2f} m)"
        return "\n".join((*lines, "", f"Its torso was {highest} and {lowest}."))

    def _side(self, look: int) -> View:
        """Return the second side from which a look sees the episode."""
        robot = self.spec.robot
        is_flat = robot is not None and robot.root.kind == "planar"
        sides = _FLAT_SIDES if is_flat else tuple(_SIDES)
        return sides[look % len(sides)]

    def _parts(self, count: int) -> list[_Part]:
        """Return the episode in so many parts of one length."""
        long = self._length_s / count
        return [(number * long, (number + 1) * long) for number in range(count)]

    def _widened(self, window: _Part, frames: int = _FRAMES) -> _Part:
        """Return a part of the episode that holds a window and at least `frames` steps."""
        length, dt_s = self._length_s, self._dt_s or 1.0
        start, end = (min(max(moment, 0.0), length) for moment in window)
        wide = min(max(1.2 * (end - start), (frames - 1) * dt_s), length)
        start = min(max((start + end - wide) / 2, 0.0), length - wide)
        # At whole steps, so that a short part is shown step by step.
        start = round(start / dt_s) * dt_s
        return start, min(start + round(wide / dt_s) * dt_s, length)

    def _own(self, parts: Sequence[_Part], shift: float) -> list[_Shot]:
        """Return the sheets of an environment that draws itself; without a clock only one."""
        if self._dt_s is None:
            return [_Shot("the whole episode", _FEW, columns=_OWN_COLUMNS, shift=shift)]
        return [
            _Shot(_between(part), _FEW, part, columns=_OWN_COLUMNS, shift=shift) for part in parts
        ]

    def _drawn(self, looks: Sequence[Sequence[_Shot]], suffix: str = ".png") -> list[list[Sheet]]:
        """Draw the sheets that do not exist yet; raises TelicError when one cannot be drawn."""
        env, env_args = self.trajectory.facts.environment
        sheets: list[list[Sheet]] = []
        jobs: dict[Path, RenderJob] = {}
        for shots in looks:
            sheets.append([])
            for shot in shots:
                window = "-".join(f"{moment:.2f}" for moment in shot.window or ()) or "all"
                names = [self._name, shot.view or "usual", window, *["near"] * shot.is_near]
                names += [f"shift{shot.shift:.2f}"] if shot.shift else []
                path = self._folder / f"{'_'.join(names)}{suffix}"
                sheets[-1].append(Sheet(path, shot.words))
                if not path.exists():
                    jobs[path] = RenderJob(
                        trajectory=self._episode,
                        output=path,
                        env=env,
                        env_args=env_args,
                        frames=shot.frames,
                        columns=shot.columns,
                        between_s=shot.window,
                        view=shot.view,
                        shift=shot.shift,
                        near=shot.is_near,
                        ruler=True,
                        caption="time",
                    )
        for drawing in render(list(jobs.values())):
            if drawing.error:
                raise TelicError(f"The episode cannot be drawn: {drawing.error}")
        return sheets


def _distinct(parts: Sequence[_Part]) -> list[_Part]:
    """Return parts that are not nearly the same time as one before."""
    kept: list[_Part] = []
    for start, end in parts:
        shared = (
            (min(end, other[1]) - max(start, other[0]))
            / (max(end, other[1]) - min(start, other[0]))
            for other in kept
        )
        if all(share < _NEARLY_ALL for share in shared):
            kept.append((start, end))
    return kept


def _between(part: _Part) -> str:
    return f"from {part[0]:.2f} s to {part[1]:.2f} s"
