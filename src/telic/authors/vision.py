"""Have a vision model watch episodes: what should be seen, what is seen, and a second look.

First, without any picture, the model says what each criterion would look like; that is asked once
per session, as equal questions are answered from disk. Then it scores sheets of still pictures of
each episode, with the time on each. What it and the code judge disagree on it looks at once more,
closer. Nothing on a sheet tells how the episode was rewarded or judged.

An outage, a refusal, the end of the budget or an episode that cannot be drawn is an unknown
score. A request to stop is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from telic.authors.cast import Players, ask, player
from telic.core.config import Record
from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.episode import measurable, measure_between
from telic.judges.fusion import extend, fuse, resolve
from telic.judges.verdict import WHOLE, Disagreement, Verdict, unknown
from telic.judges.vision import (
    LookFor,
    filled,
    look_for_form,
    sighting_form,
    verdict_of,
    worth_watching,
)
from telic.llm import Cancelled, Image
from telic.llm.names import watches_video
from telic.llm.records import VIDEO, fingerprint
from telic.rendering import RenderJob, render
from telic.rendering.jobs import View
from telic.rendering.replay import model_file
from telic.storage.trajectories import Environment, Trajectory, read_evidence

REPEATS = 3
_AT_ONCE = 4
_FRAMES, _COLUMNS = 24, 6
_FEW = 12
# An environment that draws itself chooses the size of its pictures, which is large.
_OWN_COLUMNS = 3
_MOST_WINDOWS, _PLACES = 3, 8
_STILL_M = 0.005
_SYSTEM = (
    "You judge the motion of robots from pictures. You report what the pictures show and nothing "
    "that they do not. You say that something cannot be seen rather than guess, and you are as "
    "ready to say that a behaviour is absent as that it is there."
)


class VisionJudge:
    """A model that looks at episodes of one intent.

    Args:
        models: who is asked.
        intent: what the robot should do.
        criteria: titles of what that means; those of the judge's leaves, to be compared with them.
        folder: where the pictures go.
    """

    def __init__(self, models: Players, intent: str, criteria: Sequence[str], folder: Path) -> None:
        self._models = models
        self._intent = intent
        self._titles = list(dict.fromkeys(criteria)) or [intent]
        self._folder = folder
        self.environment: Environment | None = None
        """where the episodes were played; None: what they say, for registered ids only"""

    def second_opinion(self, episodes: Sequence[Path], code: Sequence[Verdict]) -> list[Verdict]:
        """Return fused verdicts on all episodes of a policy, of which a few are watched.

        Watched are those at the 10th, 50th and 90th percentile of the code score; what they lose
        by it the others lose as well (`extend`).
        """
        chosen = worth_watching(code)
        seen = self.watch([episodes[index] for index in chosen])

        def settled(index: int, vision: Verdict) -> Verdict:
            return self.settle(episodes[index], code[index], vision)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            fused = dict(zip(chosen, pool.map(settled, chosen, seen), strict=True))
        return extend(code, fused)

    def watch(self, episodes: Sequence[Path], repeats: int = REPEATS) -> list[Verdict]:
        """Return what the model makes of episodes of one policy, from worst to best.

        The middle one is judged `repeats` times, to know the spread of the answers; every verdict
        carries that spread.
        """
        middle = len(episodes) // 2
        counts = [repeats if place == middle else 1 for place in range(len(episodes))]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            verdicts = list(pool.map(self._watch_one, episodes, counts))
        spread = verdicts[middle].spread if verdicts else None
        return [verdict.model_copy(update={"spread": spread}) for verdict in verdicts]

    def settle(self, episode: Path, code: Verdict, vision: Verdict) -> Verdict:
        """Fuse two verdicts on an episode after a second, closer look at what is in dispute.

        The second look has denser pictures of the disputed time and, where the model named one,
        the quantity that settles it, measured over that time; never the code judge's score.
        """
        fused = fuse(code, vision)
        if not fused.disagreements:
            return fused
        try:
            footage = Footage(episode, self._folder, self.environment)
            look_for = self._what_to_see(footage.spec)
            disputes = [_checked(dispute, look_for, footage) for dispute in fused.disagreements]
            again = self._look_again(look_for, disputes, footage)
        except Cancelled:
            raise
        except TelicError as error:
            return fused.model_copy(update={"reason": f"vision was not asked again: {error}"})
        return resolve(code, vision, again, disputes)

    def _watch_one(self, episode: Path, repeats: int) -> Verdict:
        try:
            footage = Footage(episode, self._folder, self.environment)
            look_for = self._what_to_see(footage.spec)
            sheets = footage.overview()
            if watches_video(player(self._models, "vision_judge").provider.name):
                sheets = [footage.film(), *sheets]
            values = self._shown(look_for, footage, sheets)
        except Cancelled:
            raise
        except TelicError as error:
            return unknown("vision", str(error))
        form = sighting_form(self._titles)

        def look(sample: int) -> Record | TelicError:
            try:
                return self._ask("vision_judge", form, values, sheets, sample)
            except Cancelled:
                raise
            except TelicError as error:
                return error

        with ThreadPoolExecutor(repeats) as pool:
            answers = list(pool.map(look, range(repeats)))
        forms = [answer for answer in answers if isinstance(answer, Record)]
        return verdict_of(forms, self._titles) if forms else unknown("vision", str(answers[0]))

    def _what_to_see(self, spec: EnvSpec) -> dict[str, LookFor]:
        """Return what each criterion would look like, by title."""
        offered = measurable(spec)
        values = {
            "intent": self._intent,
            "criteria": "\n".join(f"{n}. {title}" for n, title in enumerate(self._titles, 1)),
            "robot": _robot(spec),
            "quantities": "\n".join(f"- `{q.name}` [{q.unit}]: {q.formula}" for q in offered),
        }
        form = look_for_form(self._titles, [quantity.name for quantity in offered])
        return filled(self._ask("vision_criteria", form, values), self._titles)

    def _look_again(
        self, look_for: dict[str, LookFor], disputes: Sequence[Disagreement], footage: Footage
    ) -> Verdict:
        titles = [dispute.criterion for dispute in disputes if dispute.criterion != WHOLE]
        windows = [_window(dispute) for dispute in disputes]
        sheets = [footage.overview()[0], *footage.close_ups(windows)]
        shown = self._shown({title: look_for[title] for title in titles}, footage, sheets)
        values = {**shown, "measured": _measurements(disputes)}
        answer = self._ask("vision_again", sighting_form(titles), values, sheets)
        return verdict_of([answer], titles)

    def _shown(
        self, look_for: dict[str, LookFor], footage: Footage, sheets: Sequence[Sheet]
    ) -> dict[str, str]:
        pictures = [f"{number}. {sheet.words}" for number, sheet in enumerate(sheets, 1)]
        return {
            "intent": self._intent,
            "criteria": _listed(look_for),
            "robot": _robot(footage.spec),
            "pictures": "\n".join(pictures),
            "places": footage.places(),
        }

    def _ask(
        self,
        role: str,
        form: type[Record],
        values: dict[str, str],
        sheets: Sequence[Sheet] = (),
        sample: int = 0,
    ) -> Record:
        images = [sheet.image for sheet in sheets]
        return ask(self._models, role, form, values, system=_SYSTEM, images=images, sample=sample)


def _checked(dispute: Disagreement, look_for: dict[str, LookFor], footage: Footage) -> Disagreement:
    """Return the dispute with the quantity that settles it, measured over its time."""
    look = look_for.get(dispute.criterion)
    if look is None or look.measure is None:
        return dispute
    check = measure_between(footage.trajectory, footage.spec, look.measure, _window(dispute))
    return dispute.model_copy(update={"check": check})


def _window(dispute: Disagreement) -> tuple[float, float] | None:
    if dispute.start_s is None or dispute.end_s is None:
        return None
    return dispute.start_s, dispute.end_s


def _robot(spec: EnvSpec) -> str:
    bodies = f" Its bodies: {', '.join(spec.body_names)}." if spec.body_names else ""
    feet = f" Its feet: {', '.join(spec.feet)}." if spec.feet else ""
    return f"{spec.id}: {spec.description}{bodies}{feet}"


def _listed(look_for: dict[str, LookFor]) -> str:
    return "\n".join(
        f"{number}. **{title}**. Seen as: {look.visible} How: {look.how} "
        f"Looks alike and is not it: {look.not_this}"
        for number, (title, look) in enumerate(look_for.items(), 1)
    )


def _measurements(disputes: Sequence[Disagreement]) -> str:
    lines = [
        f"- `{check.quantity}` [{check.unit}] from {check.start_s:.2f} s to {check.end_s:.2f} s: "
        f"mean {check.mean:.3g}, lowest {check.lowest:.3g}, highest {check.highest:.3g}, at first "
        f"{check.first:.3g}, at last {check.last:.3g}"
        for check in (dispute.check for dispute in disputes)
        if check is not None
    ]
    return "\n".join(dict.fromkeys(lines)) or "Nothing."


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
        parts = [self._widened(window) for window in windows if window is not None]
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
        head = (
            "The camera follows a robot that travels. Measured from its first place, the torso was:"
        )
        return "\n".join((head, "", *lines))

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
        start, end = (min(max(moment, 0.0), length) for moment in window)
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
        env, env_args = self.trajectory.facts.environment
        jobs = [shot.job(self._episode, path) for path, shot in sheets.items() if not path.exists()]
        asked = {"env": env, "env_args": env_args}
        for drawing in render([job.model_copy(update=asked) for job in jobs]):
            if drawing.error:
                raise TelicError(f"The episode cannot be drawn: {drawing.error}")
        return [Sheet(path, shot.words) for path, shot in sheets.items()]

    def _path(self, shot: _Shot) -> Path:
        window = "-".join(f"{moment:.2f}" for moment in shot.window or ()) or "all"
        return self._base.with_name(f"{self._base.name}_{shot.view or 'usual'}_{window}.png")


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
