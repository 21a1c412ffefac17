"""Score episodes with a vision model.

First, the model states without images how each criterion should look, once per session. Then it
scores contact sheets of three episodes of a policy in a single request, next to a correct and an
incorrect episode, because contrast improves the detection of faults. Where it disagrees with the
code judge, it is queried again with close-ups and measurements. Sheets do not reveal how an episode
was judged. After outages, refusals, an exhausted budget or failures, scores are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, create_model

from telic.authors._cast import RoleModels
from telic.authors._context import criterion_words
from telic.authors.footage import Footage
from telic.core.config import Record
from telic.envs.mujoco import MujocoEnv
from telic.errors import TelicError
from telic.judges.criteria import Composition
from telic.judges.demonstrations import Examples, demonstrate, open_env
from telic.judges.episode import RecordedEpisode
from telic.judges.failure_modes import failure_modes, look_alikes
from telic.judges.fusion import extend, fuse, resolve
from telic.judges.measured import JudgeFile, measure_between, measured_parts
from telic.judges.validation import GOOD, JudgeValidation, bad_examples
from telic.judges.verdict import WHOLE, Disagreement, Verdict, unknown
from telic.judges.vision import (
    VisibleSigns,
    filled,
    look_for_form,
    seen_verdict,
    sighting_form,
    worth_watching,
)
from telic.llm import Cancelled, Image
from telic.llm.names import HOST
from telic.storage.trajectories import Environment, Trajectory, write_trajectory

_REPEATS = 3
"""number of independent answers that a model gives on disputed criteria"""
_COMMON = ("height", "forward_velocity", "uprightness", "pitch_turns", "heading_turns")
"""quantities that are measured over the disputed interval, after those of the criterion"""
_MAX_MEASURES = 8


class VisionJudge:
    """Judge that scores episodes with a vision model, given contrasting examples."""

    def __init__(
        self,
        cast: RoleModels,
        judge: JudgeFile,
        folder: Path,
        environment: Environment | None = None,
        contrast: dict[str, Trajectory] | None = None,
    ) -> None:
        self._cast, self._judge, self._folder = cast, judge, folder
        self._titles = [criterion.title for criterion in judge.criteria]
        self._words = [criterion_words(each, is_measured=False) for each in judge.criteria]
        self._environment, self._contrast = environment, contrast or {}

    def second_opinion(self, episodes: Sequence[Path], code: Sequence[Verdict]) -> list[Verdict]:
        """Watch a few episodes of a policy and return fused verdicts on all of them.

        The episodes at the 10th, 50th and 90th percentile of the code score are watched. Their loss
        of score is extrapolated to all other episodes (see `extend`).
        """
        chosen = worth_watching(code)
        seen = self.watch([episodes[index] for index in chosen])
        fused = {index: fuse(code[index], one) for index, one in zip(chosen, seen, strict=True)}
        disputed = [index for index in chosen if fused[index].disagreements]
        if disputed:
            first = dict(zip(chosen, seen, strict=True))
            given = [(episodes[at], code[at], first[at], fused[at]) for at in disputed]
            fused |= dict(zip(disputed, self._settled(given), strict=True))
        return extend(code, fused)

    def watch(self, episodes: Sequence[Path]) -> list[Verdict]:
        """Return the vision model's verdicts on episodes of one policy."""
        return self._verdicts(episodes, [{} for _ in episodes], 1)

    def _settled(self, given: Sequence[tuple[Path, Verdict, Verdict, Verdict]]) -> list[Verdict]:
        """Fuse verdicts after the model has looked at the disputed criteria a second time.

        For the second look, the model receives close-ups of the disputed interval with
        measurements, but not the code judge's score.
        """
        doubts = [
            {dispute.criterion: dispute for dispute in fused.disagreements} for *_, fused in given
        ]
        # Sample repeatedly because this answer is decisive, except from a person or agent.
        repeats = 1 if self._cast.player("vision").provider.name == HOST else _REPEATS
        again = self._verdicts([episode for episode, *_ in given], doubts, repeats)
        missing = "no second look by the vision model: "
        return [
            resolve(code, vision, second, list(disputes.values()))
            if second.seen
            else fused.model_copy(update={"reason": f"{missing}{second.reason}"})
            for (_, code, vision, fused), second, disputes in zip(given, again, doubts, strict=True)
        ]

    def _verdicts(
        self, episodes: Sequence[Path], doubts: Sequence[dict[str, Disagreement]], repeats: int
    ) -> list[Verdict]:
        """Score several episodes in one request. Rendering failures lead to unknown verdicts."""
        forms: dict[int, list[Record]] = {}
        failures: dict[int, str] = {}
        for sample in range(repeats):
            try:
                answers, broken = self._look(episodes, doubts, sample)
            except Cancelled:
                raise
            except TelicError as error:
                answers, broken = {}, dict.fromkeys(range(len(episodes)), str(error))
            failures = {**broken, **failures}
            for place, form in answers.items():
                forms.setdefault(place, []).append(form)
        return [
            seen_verdict(forms[place], self._titles)
            if place in forms
            else unknown("vision", failures.get(place, "it was not watched"))
            for place in range(len(episodes))
        ]

    def _look(
        self, episodes: Sequence[Path], doubts: Sequence[dict[str, Disagreement]], sample: int
    ) -> tuple[dict[int, Record], dict[int, str]]:
        """Query the model once and return completed forms and failure reasons by episode index."""
        compared = self._compared()
        words = [what for what, _ in compared]
        sheets = [footage.sheet(self._judge) for _, footage in compared]
        shown: dict[int, dict[str, Any]] = {}
        broken: dict[int, str] = {}
        for place, (episode, own) in enumerate(zip(episodes, doubts, strict=True)):
            name = f"episode {len(shown) + 1}"
            try:
                footage = Footage(episode, self._folder, self._environment)
                drawn = {name: footage.sheet(self._judge)}
                if own:
                    windows = dict.fromkeys(map(_window, own.values()))
                    drawn = {
                        f"{name}, disputed interval": footage.close_up(window)
                        for window in list(windows)[:2]
                    }
            except TelicError as error:
                broken[place] = str(error)
                continue
            sheets += drawn.values()
            words += drawn
            described = self._doubted(footage, own) if own else []
            shown[place] = {"places": footage.places(), "doubts": described}
        if not shown:
            return {}, broken
        form = sighting_form(self._titles)
        fields: dict[str, Any] = {
            f"episode_{number}": (form, Field(description=f"episode {number}"))
            for number in range(1, len(shown) + 1)
        }
        answer = self._cast.ask(
            "vision_judge",
            create_model("WatchedEpisodes", __base__=Record, **fields),
            images=[Image(data=path.read_bytes()) for path in sheets],
            sample=sample,
            look_for=self._what_to_see(),
            criteria=dict(zip(self._titles, self._words, strict=True)),
            pictures=words,
            has_contrast=len(compared),
            episodes=list(shown.values()),
        )
        found = {
            place: getattr(answer, f"episode_{number}") for number, place in enumerate(shown, 1)
        }
        return found, broken

    def _compared(self) -> list[tuple[str, Footage]]:
        """Return the contrast episodes with their captions and write missing trajectory files."""
        found: list[tuple[str, Footage]] = []
        for number, (what, trajectory) in enumerate(self._contrast.items()):
            path = self._folder / f"contrast_{number}.npz"
            if not path.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                write_trajectory(path, trajectory)
            found.append((what, Footage(path, self._folder, self._environment)))
        return found

    def _what_to_see(self) -> dict[str, VisibleSigns]:
        """Return the expected visual evidence of each criterion by title."""
        form = look_for_form(self._titles)
        return filled(self._cast.ask("vision_criteria", form, criteria=self._words), self._titles)

    def _doubted(self, footage: Footage, disputes: dict[str, Disagreement]) -> list[str]:
        """Describe the disputed criteria with their intervals and the measured quantities."""
        episode = RecordedEpisode(footage.trajectory, footage.spec)
        lines: list[str] = []
        for name, dispute in disputes.items():
            window = _window(dispute)
            when = "" if window is None else f", from {window[0]:.2f} s to {window[1]:.2f} s"
            own = [each.measure for each in self._judge.criteria if name in (each.title, WHOLE)]
            parts = [part for measure in own for part in measured_parts(measure)]
            names = list(dict.fromkeys([*parts, *_COMMON]))[:_MAX_MEASURES]
            measured = [measure_between(episode, each, window) for each in names]
            what = "the intent as a whole" if name == WHOLE else f'"{name}"'
            words = "; ".join(filter(None, measured)) or "nothing"
            lines.append(f"{what}{when}; measured then: {words}")
        return lines


def contrast_of(
    written: Composition, trial: JudgeValidation, threshold: float, where: Environment
) -> dict[str, Trajectory]:
    """Return a demonstration and the rejected failure mode with the highest score, if any."""
    bad = bad_examples(trial.examples, trial.fine)
    rejected = [each for each in bad if (each.score or 0.0) < threshold]
    found: dict[str, Trajectory] = {}
    env, env_args = where
    look = open_env(env, env_args, 1)
    look.close()
    led: Examples | None = None
    if written.motions and isinstance(look, MujocoEnv):
        motions = look_alikes(look, written.motions) | {GOOD: tuple(written.motions)}
        led = demonstrate(env, env_args, motions)
        found["for comparison: a scripted demonstration (correct)"] = led.trajectory(GOOD)
    if rejected:
        name = max(rejected, key=lambda each: each.score or 0.0).name
        group = led if led is not None and name in led.names else failure_modes(env, env_args)
        if name in group.names:
            words = f'for comparison: a robot that only "{name}" (incorrect)'
            found[words] = group.trajectory(name)
    return found


def _window(dispute: Disagreement) -> tuple[float, float] | None:
    if dispute.start_s is None or dispute.end_s is None:
        return None
    return dispute.start_s, dispute.end_s
