"""A model as a session's author: it reads, writes, reviews, revises, watches and analyses.

A role's prompt is a Markdown file in prompts/. The authors of reward and judge see the criteria and
the robot, never one another's code; only the reviewer sees both files, and each author gets the
findings about its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from telic.authors.answers import (
    Analysis,
    Elicited,
    Look,
    Review,
    Revision,
    Turn,
    WrittenJudge,
    WrittenReward,
)
from telic.authors.author import Brief, MeasurableIntent, try_written
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    check_judge,
    check_reward,
    same_memory,
    structure_text,
    weights_in,
)
from telic.authors.cast import Cast
from telic.authors.composer import StructureSearch, TriedReward
from telic.authors.history import LessonMemory, SessionHistory, recall
from telic.authors.scene import criterion_words, listed, own_scene, problem_text, scene, table
from telic.authors.vision import VisionJudge
from telic.core.events import LogMessage
from telic.errors import RewardError, TelicError
from telic.judges.criteria import Composition, Criterion
from telic.judges.failure_modes import HABITS
from telic.judges.validation import Trial
from telic.judges.verdict import Verdict
from telic.storage.files import once, read_record
from telic.storage.layout import IterationFolder
from telic.training.job import PpoSettings
from telic.training.plan import for_device, preset

File = TypeVar("File", WrittenReward, WrittenJudge)
# Bounds of the trainer's settings: factors of the environment's preset for what depends on it,
# plain ranges for the rest; a preset outside of a range widens it.
_FACTORS = {"learning_rate": (0.25, 4.0), "target_kl": (0.25, 3.0), "epochs": (0.3, 2.0)}
_RANGES = {
    "gamma": (0.95, 0.999),
    "gae_lambda": (0.8, 1.0),
    "clip": (0.1, 0.4),
    "entropy_coef": (0.0, 0.05),
    "value_coef": (0.1, 2.0),
    "log_std": (-2.0, 0.5),
}
_TRIES = 3
_LOOKS = 6
_ASK_AGAIN = (
    "Use a stronger model, or start from scratch with --fresh: the same command would only read "
    "the same paid answers again."
)
_HARDEST = 0.6
"""difficulty of the hardest fields of a requested terrain"""


class Flaw(NamedTuple):
    """A problem of a revision."""

    text: str
    is_fatal: bool = True
    """False: a doubt, which goes back to the reviser while tries are left"""


class ModelAuthor:
    """Ask a model, or the person or agent who answers work orders, for everything."""

    def __init__(self, cast: Cast, brief: Brief) -> None:
        self._cast, self._brief, self._config = cast, brief, brief.config
        self._folder, self._spec = brief.folder, brief.spec
        self._preset = preset(for_device("default", brief.config.device), brief.config.env).settings

    def _shown(self, env_args: dict[str, Any]) -> dict[str, str]:
        """Return the environment with these arguments, as prompts show it."""
        return own_scene(self._config.intent, self._config.env, env_args)

    def read(self) -> MeasurableIntent:
        """Ask for measurable criteria of the intent."""
        elicited = self._elicited()
        return MeasurableIntent(
            criteria=self._config.criteria or elicited.criteria,
            doubts=elicited.ambiguous,
            not_understood=elicited.not_understood,
        )

    def _elicited(self) -> Elicited:
        """Return the model's reading of the intent; asked once, then read from its reply."""
        habits = "\n".join(f"- {name}" for name in HABITS)
        shown = scene(self._config.intent, self._spec)
        return self._cast.ask("elicitor", Elicited, {**shown, "habits": habits})

    # ---- reward and judge

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Ask two authors, who do not see one another's code, for reward and judge."""
        elicited, spec = self._elicited(), self._spec
        env_args: dict[str, object] = {"max_episode_steps": self._steps(elicited.seconds)}
        if "terminate_when_unhealthy" in spec.arguments:
            env_args["terminate_when_unhealthy"] = elicited.ends_when_it_falls
        if "terrain" in spec.arguments and elicited.terrain != "flat":
            env_args |= {
                "terrain": elicited.terrain,
                "terrain_start": elicited.terrain_start,
                "terrain_hardest": _HARDEST,
            }
        shown = self._shown(env_args)
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(self._write_reward, shown, wanted.criteria)
            judging = pool.submit(self._write_judge, shown, wanted.criteria)
            reward, judge = writing.result(), judging.result()
        settings, moved = within(reward.settings, self._preset)
        return Composition(
            intent=self._config.intent,
            env=spec.id,
            criteria=wanted.criteria,
            reward=reward.source,
            judge=judge.source,
            env_args=env_args,
            settings=settings,
            steps=reward.steps,
            doubts=(*wanted.doubts, *moved),
            not_understood=wanted.not_understood,
            dropped=wanted.dropped,
            covered=wanted.covered,
            motions=elicited.demonstration,
            fine=elicited.fine,
            others=reward.others,
        )

    def _write_reward(
        self, shown: dict[str, str], criteria: Sequence[Criterion], problem: str = ""
    ) -> WrittenReward:
        bounds_text = "\n".join(
            f"- `{name}`: {low:g} to {high:g}, usually {getattr(self._preset, name):g} "
            f"({PpoSettings.model_fields[name].description})"
            for name, (low, high) in bounds(self._preset).items()
        )
        lessons = self._lessons()
        values = {**shown, "criteria": listed(criteria), "bounds": bounds_text, "lessons": lessons}
        return self._write("reward_author", WrittenReward, values, check_reward, problem)

    def _write_judge(
        self, shown: dict[str, str], criteria: Sequence[Criterion], problem: str = ""
    ) -> WrittenJudge:
        values = {**shown, "criteria": listed(criteria)}
        return self._write("judge_author", WrittenJudge, values, check_judge, problem)

    def _write(
        self,
        role: str,
        answer: type[File],
        values: dict[str, str],
        check: Callable[[str], None],
        problem: str,
    ) -> File:
        """Ask for a file until it passes the static checks."""
        for _ in range(_TRIES):
            written = self._cast.ask(role, answer, {**values, "problem": problem})
            try:
                check(written.source)
                return written
            except TelicError as error:
                problem = problem_text([f"It was refused: {error}"], written.source)
        raise RewardError(
            f"The {role} wrote no usable file in {_TRIES} tries. {problem[:500]}", hint=_ASK_AGAIN
        )

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Ask a reviewer for bugs and exploits, and the authors to fix them."""
        shown, criteria = self._shown(written.env_args), written.criteria
        values = {
            **shown,
            "criteria": listed(criteria),
            "reward": written.reward,
            "judge": written.judge,
            "examples": table(trial, self._config.threshold),
        }
        found = self._cast.ask("reviewer", Review, values)
        reward_problems = (*trial.reward_problems, *found.reward_problems)
        judge_problems = (*trial.judge_problems, *found.judge_problems)
        changes: dict[str, object] = {}
        if reward_problems:
            problem = problem_text(reward_problems, written.reward)
            reward = self._write_reward(shown, criteria, problem)
            settings, _ = within(reward.settings, self._preset)
            changes |= {"reward": reward.source, "steps": reward.steps, "settings": settings}
            changes["others"] = reward.others
        if judge_problems:
            changes["judge"] = self.revise_judge(written, judge_problems)
        return written.model_copy(update=changes) if changes else None

    def revise_judge(self, written: Composition, problems: Sequence[str]) -> str | None:
        """Ask the judge's author for another judge, given the problems of the first."""
        problem = problem_text(problems, written.judge)
        return self._write_judge(self._shown(written.env_args), written.criteria, problem).source

    # ---- revisions

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return the alternative files of the first answer, tried on the same examples."""
        return StructureSearch(self._brief, written).offered(written.others, written.env_args)

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Ask what to try next; the model may look at the records first."""
        past = SessionHistory.of(self._folder, history)
        text = past.text(self._config.threshold, notes, self._config.iterations)
        story = f"{text}\n\n{self._lessons()}".rstrip()
        shown = self._shown(past.candidates[past.best.number].env_args)
        flaw = partial(self._flaw, past)
        revision = decide(self._cast, {**shown, "story": story}, past.show, past.candidates, flaw)
        candidate = self._candidate(revision, past)
        if not revision.others:
            return candidate
        written = read_record(self._folder.author, Composition)
        parent = past.find(revision.based_on)
        before = structure_text(past.candidates[parent.number], parent.variant)
        found = StructureSearch(self._brief, written).offered(revision.others, candidate.env_args)
        others = [
            each.variant.model_copy(
                update={"warm": revision.warm and same_memory(each.variant.reward or "", before)}
            )
            for each in found
        ]
        return candidate.model_copy(update={"variants": (*candidate.variants, *others)})

    def _flaw(self, past: SessionHistory, revision: Revision) -> Flaw | None:
        """Return the problem of a revision: weights of unknown terms, or what examples show."""
        candidate = self._candidate(revision, past)
        try:
            own = weights_in(candidate.reward)
        except RewardError as error:
            return Flaw(str(error))
        named = {name for weights in revision.weights for name in weights}
        if strange := sorted(named - set(own)):
            return Flaw(f"No weight is named {', '.join(strange)}; there are: {', '.join(own)}.")
        if revision.source is None:
            return None  # it ran before
        written = read_record(self._folder.author, Composition)
        revised = {"env_args": candidate.env_args, "reward": candidate.reward}
        trial = try_written(self._brief, written.model_copy(update=revised))
        text = "\n".join(f"- {problem}" for problem in trial.reward_problems)
        # A reward that could not be run has no examples.
        return Flaw(text, is_fatal=not trial.examples) if text else None

    def _candidate(self, revision: Revision, past: SessionHistory) -> RewardCandidate:
        base = past.candidates[revision.based_on]
        env_args = dict(base.env_args)
        if revision.seconds is not None:
            env_args["max_episode_steps"] = self._steps(revision.seconds)
        can_fall = "terminate_when_unhealthy" in self._spec.arguments
        if revision.ends_when_it_falls is not None and can_fall:
            env_args["terminate_when_unhealthy"] = revision.ends_when_it_falls
        settings, moved = within({**base.settings, **revision.settings}, self._preset)
        chosen = past.find(revision.based_on).variant
        kept = {} if revision.source else base.variants[chosen].weights
        return RewardCandidate(
            reward=revision.source or structure_text(base, chosen),
            variants=tuple(
                Variant(weights={**kept, **changes}, warm=revision.warm)
                for changes in revision.weights or ({},)
            ),
            env_args=env_args,
            settings=settings,
            steps=revision.steps or base.steps,
            parent=revision.based_on,
            change="; ".join((revision.change, *moved)),
            diagnosis=revision.diagnosis,
            lessons=revision.lessons,
        )

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Ask the vision model about some of the episodes that code has judged."""
        if not self._config.vision:
            return verdicts
        written = read_record(self._folder.author, Composition)
        files = IterationFolder(episodes[0].parents[2])
        candidate = read_record(files.candidate, RewardCandidate)
        eyes = VisionJudge(
            self._cast,
            self._config.intent,
            {criterion.title: criterion_words(criterion) for criterion in written.criteria},
            episodes[0].parent / "looked",
            (self._config.env, candidate.env_args),
        )
        return eyes.second_opinion(episodes, verdicts)

    def analyse(self, history: list[SessionIteration]) -> None:
        """Ask for an analysis of the session; its report can do without."""
        if not history:
            return
        past = SessionHistory.of(self._folder, history)
        shown = self._shown(past.candidates[past.best.number].env_args)
        values = {name: shown[name] for name in ("intent", "environment")}
        values["story"] = past.text(self._config.threshold)
        try:
            once(
                self._folder.analysis, Analysis, lambda: self._cast.ask("analyst", Analysis, values)
            )
        except TelicError as error:
            self._brief.emit(LogMessage(message=f"no analysis was written: {error}"))

    def _lessons(self) -> str:
        """Return the lessons of earlier sessions, as they were when this one began."""
        look_up = partial(recall, self._folder, self._config.env, self._config.intent)
        return once(self._folder.memory, LessonMemory, look_up).text()

    def _steps(self, seconds: float) -> int:
        return max(10, round(seconds / (self._spec.dt_s or 1.0)))


def decide(
    cast: Cast,
    values: Mapping[str, str],
    show: Callable[[Look], str],
    numbers: Collection[int],
    flaw: Callable[[Revision], Flaw | None] = lambda revision: None,
) -> Revision:
    """Return a revision whose code may run, made after at most six looks.

    Args:
        cast: the models.
        values: values of the prompt other than looks: the scene, and the history.
        show: answers a look.
        numbers: the iterations that a revision may be based on.
        flaw: returns the problem of a revision that only a trial shows; None: nothing.
    """
    seen: list[str] = []
    looks = tries = 0
    problem: Flaw | None = None
    while tries < _TRIES:
        now = {"looks_left": str(_LOOKS - looks), "seen": "\n\n".join(seen) or "Nothing yet."}
        turn = cast.ask("reviser", Turn, {**values, **now})
        revision, look = turn.revision, turn.look
        if look is not None and looks < _LOOKS:
            looks += 1
            parts = [str(part) for part in (look.at, look.iteration, look.quantity) if part]
            try:
                shown = show(look)
            except TelicError as error:
                shown = f"This cannot be shown: {error}"
            seen.append(f"### You looked at {' '.join(parts)}\n\n{shown}")
            continue
        tries += 1
        if revision is None:
            problem = Flaw("No looks are left. Decide now: answer with a revision.")
        elif revision.based_on not in numbers:
            there = ", ".join(map(str, sorted(numbers)))
            problem = Flaw(f"Iteration {revision.based_on} does not exist; there are: {there}.")
        else:
            problem = None
            try:
                if revision.source is not None:
                    check_reward(revision.source)
            except TelicError as error:
                code = f"```python\n{revision.source}\n```"
                problem = Flaw(f"The file was refused: {error}\n\n{code}")
            problem = problem or flaw(revision)
            if problem is None or (tries == _TRIES and not problem.is_fatal):
                return revision
        seen.append(f"### Your answer was sent back\n\n{problem.text}")
    last = problem.text if problem else ""
    raise RewardError(
        f"The reviser wrote nothing usable in {_TRIES} tries. {last}", hint=_ASK_AGAIN
    )


def bounds(preset: PpoSettings) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value of every setting that may be changed."""
    allowed = {
        name: (min(low, getattr(preset, name)), max(high, getattr(preset, name)))
        for name, (low, high) in _RANGES.items()
    }
    for name, (low, high) in _FACTORS.items():
        usual = getattr(preset, name)
        allowed[name] = (low * usual, high * usual)
    return allowed


def within(asked: Mapping[str, Any], preset: PpoSettings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the requested settings clamped to their bounds, and a sentence on every change."""
    allowed = bounds(preset)
    taken: dict[str, Any] = {}
    moved: list[str] = []
    for name, value in asked.items():
        if name not in allowed or isinstance(value, bool | str):
            moved.append(f"{name}={value} is not a setting that may be changed")
            continue
        low, high = allowed[name]
        kept = min(max(float(value), low), high)
        taken[name] = round(kept) if isinstance(getattr(preset, name), int) else kept
        if kept != value:
            moved.append(f"{name}={value:g} was clamped to {taken[name]:g}")
    return taken, tuple(moved)
