"""A model as a session's author: it reads, writes, reviews, revises, watches and sums up.

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
from telic.storage.trajectories import Environment
from telic.training.job import PpoSettings
from telic.training.plan import for_device, preset

File = TypeVar("File", WrittenReward, WrittenJudge)
# How far an author may move the trainer's settings away from the environment's preset:
# factors for what only makes sense beside the preset, plain ranges for the rest; a preset that lies
# outside of one widens it, so that nothing is moved away from where it usually is.
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
    "Take a stronger model, or start from scratch with --fresh: the same command would only read "
    "the same answers again, because they are paid for."
)
_LOOKED = "looked"
_HARDEST = 0.6
"""how hard the hardest fields of a ground are that an author asked for"""


class Flaw(NamedTuple):
    """What is wrong with a revision."""

    text: str
    is_fatal: bool = True
    """False: a doubt, which goes back to the reviser as long as tries are left"""


class ModelAuthor:
    """Asks a model, or the person or agent who answers work orders, for everything."""

    def __init__(self, cast: Cast, brief: Brief) -> None:
        self._cast = cast
        self._brief, self._config = brief, brief.config
        self._folder = brief.folder
        self._spec = brief.spec
        self._preset = preset(for_device("default", brief.config.device), brief.config.env).settings

    def _shown(self, env_args: dict[str, Any]) -> dict[str, str]:
        """Return what prompts show of the environment as it is made with these arguments."""
        return own_scene(self._config.intent, self._config.env, env_args)

    def read(self) -> MeasurableIntent:
        """Let the model make the intent measurable."""
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
        """Let two authors who do not see one another write reward and judge."""
        elicited = self._elicited()
        env_args = self._env_args(elicited)
        shown = self._shown(env_args)
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(self._write_reward, shown, wanted.criteria)
            judging = pool.submit(self._write_judge, shown, wanted.criteria)
            reward, judge = writing.result(), judging.result()
        settings, told = within(reward.settings, self._preset)
        return Composition(
            intent=self._config.intent,
            env=self._spec.id,
            criteria=wanted.criteria,
            reward=reward.source,
            judge=judge.source,
            env_args=env_args,
            settings=settings,
            steps=reward.steps,
            doubts=(*wanted.doubts, *told),
            not_understood=wanted.not_understood,
            dropped=wanted.dropped,
            covered=wanted.covered,
            motions=elicited.puppet,
            fine=elicited.fine,
            others=reward.others,
        )

    def _write_reward(
        self, shown: dict[str, str], criteria: Sequence[Criterion], problem: str = ""
    ) -> WrittenReward:
        values = {
            **shown,
            "criteria": listed(criteria),
            "bounds": bounds_text(self._preset),
            "lessons": self._lessons(),
        }
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
        """Ask for a file until it passes the checks that need not run it."""
        for _ in range(_TRIES):
            written = self._cast.ask(role, answer, {**values, "problem": problem})
            try:
                check(written.source)
            except TelicError as error:
                problem = problem_text([f"It was refused: {error}"], written.source)
                continue
            return written
        raise RewardError(
            f"The {role} wrote no usable file in {_TRIES} tries. {problem[:500]}", hint=_ASK_AGAIN
        )

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Let a reviewer look for bugs and exploits, and the authors fix what it finds."""
        shown, criteria = self._shown(written.env_args), written.criteria
        values = {
            **shown,
            "criteria": listed(criteria),
            "reward": written.reward,
            "judge": written.judge,
            "examples": table(trial, self._config.threshold),
        }
        found = self._cast.ask("reviewer", Review, values)
        # What the examples showed counts as found.
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
        """Let the judge's author write another one, given what contradicts the first."""
        problem = problem_text(problems, written.judge)
        return self._write_judge(self._shown(written.env_args), written.criteria, problem).source

    # ---- revisions

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Let the model look around and decide what to try next."""
        past = SessionHistory.of(self._folder, history)
        told = past.text(self._config.threshold, notes, self._config.iterations)
        story = f"{told}\n\n{self._lessons()}".rstrip()
        shown = self._shown(past.candidates[past.best.number].env_args)
        flaw = partial(self._flaw, past)
        revision = decide(self._cast, {**shown, "story": story}, past.show, past.candidates, flaw)
        return self._with_others(self._candidate(revision, past), revision, past)

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return the other files that were written with the first, tried on the same examples."""
        return StructureSearch(self._brief, written).offered(written.others, written.env_args)

    def _with_others(
        self, candidate: RewardCandidate, revision: Revision, past: SessionHistory
    ) -> RewardCandidate:
        """Return a candidate with the other files of its revision beside it, if they run."""
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

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Let the model look at some of the episodes that code has judged."""
        if not self._config.vision:
            return verdicts
        written = read_record(self._folder.author, Composition)
        titles = [criterion.title for criterion in written.criteria]
        folder = episodes[0].parent / _LOOKED
        meant = {criterion.title: criterion_words(criterion) for criterion in written.criteria}
        eyes = VisionJudge(self._cast, self._config.intent, titles, folder, meant)
        eyes.environment = self._environment(episodes[0])
        return eyes.second_opinion(episodes, verdicts)

    def _environment(self, episode: Path) -> Environment:
        """Return where a judged episode was played, as its iteration asked for it."""
        candidate = read_record(IterationFolder(episode.parents[2]).candidate, RewardCandidate)
        return self._config.env, candidate.env_args

    def analyse(self, history: list[SessionIteration]) -> None:
        """Let the model sum up; a report can do without."""
        if not history:
            return
        past = SessionHistory.of(self._folder, history)
        shown = self._shown(past.candidates[past.best.number].env_args)
        values = {
            "intent": shown["intent"],
            "environment": shown["environment"],
            "story": past.text(self._config.threshold),
        }
        try:
            once(
                self._folder.analysis, Analysis, lambda: self._cast.ask("analyst", Analysis, values)
            )
        except TelicError as error:
            self._brief.emit(LogMessage(message=f"no analysis was written: {error}"))

    def _lessons(self) -> str:
        """Return what earlier sessions learned, as it was when this one began."""
        look_up = partial(recall, self._folder, self._config.env, self._config.intent)
        return once(self._folder.memory, LessonMemory, look_up).text()

    def _env_args(self, elicited: Elicited) -> dict[str, object]:
        arguments: dict[str, object] = {"max_episode_steps": self._steps(elicited.seconds)}
        if "terminate_when_unhealthy" in self._spec.arguments:
            arguments["terminate_when_unhealthy"] = elicited.ends_when_it_falls
        if "terrain" in self._spec.arguments and elicited.terrain != "flat":
            arguments |= {
                "terrain": elicited.terrain,
                "terrain_start": elicited.terrain_start,
                "terrain_hardest": _HARDEST,
            }
        return arguments

    def _steps(self, seconds: float) -> int:
        return max(10, round(seconds / (self._spec.dt_s or 1.0)))

    def _flaw(self, past: SessionHistory, revision: Revision) -> Flaw | None:
        """Say what is wrong with a revision: weights of no term, or what examples show."""
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
        # Where the first one was tried, beside the same judge.
        written = read_record(self._folder.author, Composition)
        revised = {"env_args": candidate.env_args, "reward": candidate.reward}
        trial = try_written(self._brief, written.model_copy(update=revised))
        text = "\n".join(f"- {problem}" for problem in trial.reward_problems)
        # What could not be run has no examples.
        return Flaw(text, is_fatal=not trial.examples) if text else None

    def _candidate(self, revision: Revision, past: SessionHistory) -> RewardCandidate:
        base = past.candidates[revision.based_on]
        env_args = dict(base.env_args)
        if revision.seconds is not None:
            env_args["max_episode_steps"] = self._steps(revision.seconds)
        can_fall = "terminate_when_unhealthy" in self._spec.arguments
        if revision.ends_when_it_falls is not None and can_fall:
            env_args["terminate_when_unhealthy"] = revision.ends_when_it_falls
        settings, told = within({**base.settings, **revision.settings}, self._preset)
        chosen = past.find(revision.based_on).variant
        kept = {} if revision.source else base.variants[chosen].weights
        sets = revision.weights or ({},)
        return RewardCandidate(
            reward=revision.source or structure_text(base, chosen),
            variants=tuple(
                Variant(weights={**kept, **changes}, warm=revision.warm) for changes in sets
            ),
            env_args=env_args,
            settings=settings,
            steps=revision.steps or base.steps,
            parent=revision.based_on,
            change="; ".join((revision.change, *told)),
            diagnosis=revision.diagnosis,
            lessons=revision.lessons,
        )


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
        values: what the prompt shows besides looks: the scene, and the story of what was tried.
        show: answers a look.
        numbers: the iterations that a revision may be based on.
        flaw: says what is wrong with a revision that only trying it shows; None: nothing.
    """
    seen: list[str] = []
    looks = tries = 0
    while True:
        now = {"looks_left": str(_LOOKS - looks), "seen": "\n\n".join(seen) or "Nothing yet."}
        turn = cast.ask("reviser", Turn, {**values, **now})
        if turn.revision is not None:
            problem = _problem(turn.revision, numbers) or flaw(turn.revision)
            tries += 1
            if problem is None or (tries == _TRIES and not problem.is_fatal):
                return turn.revision
            if tries == _TRIES:
                raise RewardError(
                    f"The reviser wrote nothing usable in {_TRIES} tries. {problem.text}",
                    hint=_ASK_AGAIN,
                )
            seen.append(f"### Your revision was sent back\n\n{problem.text}")
        elif looks < _LOOKS:
            assert turn.look is not None
            looks += 1
            seen.append(_seen(turn.look, show))
        else:
            seen.append("### No looks are left\n\nDecide now: answer with a revision.")
            tries += 1
            if tries == _TRIES:
                raise RewardError("The reviser never decided on a revision.", hint=_ASK_AGAIN)


def _seen(look: Look, show: Callable[[Look], str]) -> str:
    parts = [look.at, *(str(part) for part in (look.iteration, look.other, look.quantity) if part)]
    try:
        shown = show(look)
    except TelicError as error:
        shown = f"This cannot be shown: {error}"
    return f"### You looked at {' '.join(parts)}\n\n{shown}"


def _problem(revision: Revision, numbers: Collection[int]) -> Flaw | None:
    """Return what makes a revision unusable, or None."""
    if revision.based_on not in numbers:
        there = ", ".join(map(str, sorted(numbers)))
        return Flaw(f"There is no iteration {revision.based_on}; there are: {there}.")
    if revision.source is None:
        return None
    try:
        check_reward(revision.source)
    except TelicError as error:
        return Flaw(f"The file was refused: {error}\n\n```python\n{revision.source}\n```")
    return None


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


def bounds_text(preset: PpoSettings) -> str:
    """Return the bounds as a list for a prompt."""
    return "\n".join(
        f"- `{name}`: {low:g} to {high:g}, usually {getattr(preset, name):g} "
        f"({PpoSettings.model_fields[name].description})"
        for name, (low, high) in bounds(preset).items()
    )


def within(asked: Mapping[str, Any], preset: PpoSettings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings that may be used, each within bounds, and what was not taken as is."""
    allowed = bounds(preset)
    taken: dict[str, Any] = {}
    told: list[str] = []
    for name, value in asked.items():
        if name not in allowed or isinstance(value, bool | str):
            told.append(f"{name}={value} is not a setting that may be changed")
            continue
        low, high = allowed[name]
        kept = min(max(float(value), low), high)
        taken[name] = round(kept) if isinstance(getattr(preset, name), int) else kept
        if kept != value:
            told.append(f"{name}={value:g} was moved to {taken[name]:g}")
    return taken, tuple(told)
