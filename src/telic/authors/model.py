"""A model as a session's author: it reads, writes, reviews, revises, watches and sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from telic.authors.answers import Analysis, Elicited, Revision
from telic.authors.author import Brief, MeasurableIntent, try_written
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    same_memory,
    structure_text,
    weights_in,
)
from telic.authors.cast import Players
from telic.authors.history import Memory, SessionHistory, recall
from telic.authors.ranking import TriedReward
from telic.authors.roles import (
    Flaw,
    analyse,
    criterion_words,
    elicit,
    problem_text,
    review,
    revise,
    write_both,
    write_judge,
    write_reward,
)
from telic.authors.scene import own_scene, scene
from telic.authors.structures import StructureSearch
from telic.authors.vision import VisionJudge
from telic.core.events import LogMessage
from telic.errors import RewardError, TelicError
from telic.judges.criteria import Composition
from telic.judges.trial import Trial
from telic.judges.verdict import Verdict
from telic.storage.files import once, read_record
from telic.storage.layout import IterationFolder
from telic.storage.trajectories import Environment
from telic.training.job import PpoSettings
from telic.training.plan import for_device, preset

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
_LOOKED = "looked"
_HARDEST = 0.6
"""how hard the hardest fields of a ground are that an author asked for"""


class ModelAuthor:
    """Asks a model, or whoever answers work orders, for everything."""

    def __init__(self, models: Players, brief: Brief) -> None:
        self._models = models
        self._brief = brief
        self._folder = brief.folder
        self._spec = brief.spec
        self._preset = preset(for_device("default", brief.device), brief.env).settings

    def _shown(self, env_args: dict[str, Any]) -> dict[str, str]:
        """Return what prompts show of the environment as it is made with these arguments."""
        return own_scene(self._brief.intent, self._brief.env, env_args)

    def read(self) -> MeasurableIntent:
        """Let the model make the intent measurable."""
        elicited = self._elicited()
        criteria = self._brief.criteria or elicited.criteria
        return MeasurableIntent(
            criteria=criteria,
            doubts=elicited.ambiguous,
            not_understood=elicited.not_understood,
        )

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Let two authors who do not see one another write reward and judge."""
        elicited = self._elicited()
        env_args = self._env_args(elicited)
        shown, bounds = self._shown(env_args), bounds_text(self._preset)
        reward, judge = write_both(self._models, shown, wanted.criteria, bounds, self._lessons())
        settings, told = within(reward.settings, self._preset)
        return Composition(
            intent=self._brief.intent,
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

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Let a reviewer look for bugs and exploits, and the authors mend what it finds."""
        shown, criteria = self._shown(written.env_args), written.criteria
        problems = review(
            self._models,
            shown,
            criteria,
            written.reward,
            written.judge,
            trial,
            self._brief.threshold,
        )
        changes: dict[str, object] = {}
        if problems.reward_problems:
            problem = problem_text(problems.reward_problems, written.reward)
            reward = write_reward(
                self._models,
                shown,
                criteria,
                bounds_text(self._preset),
                self._lessons(),
                problem,
            )
            settings, _ = within(reward.settings, self._preset)
            changes |= {"reward": reward.source, "steps": reward.steps, "settings": settings}
            changes["others"] = reward.others
        if problems.judge_problems:
            problem = problem_text(problems.judge_problems, written.judge)
            judge = write_judge(self._models, shown, criteria, problem)
            changes["judge"] = judge.source
        return written.model_copy(update=changes) if changes else None

    def revise_judge(self, written: Composition, problems: Sequence[str]) -> str | None:
        """Let the judge's author write another one, told what contradicts the first."""
        problem = problem_text(problems, written.judge)
        shown = self._shown(written.env_args)
        return write_judge(self._models, shown, written.criteria, problem).source

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Let the model look around and decide what to try next."""
        past = SessionHistory.of(self._folder, history)
        told = past.text(self._brief.threshold, notes, self._brief.iterations)
        story = f"{told}\n\n{self._lessons()}".rstrip()
        shown = self._shown(past.candidates[past.best.number].env_args)
        flaw = partial(self._flaw, past)
        revision = revise(self._models, shown, story, past.show, past.candidates, flaw)
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
        if not self._brief.vision:
            return verdicts
        written = read_record(self._folder.author, Composition)
        titles = [criterion.title for criterion in written.criteria]
        folder = episodes[0].parent / _LOOKED
        meant = {criterion.title: criterion_words(criterion) for criterion in written.criteria}
        eyes = VisionJudge(self._models, self._brief.intent, titles, folder, meant)
        eyes.environment = self._environment(episodes[0])
        return eyes.second_opinion(episodes, verdicts)

    def _environment(self, episode: Path) -> Environment:
        """Return where a judged episode was played, as its iteration asked for it."""
        candidate = read_record(IterationFolder(episode.parents[2]).candidate, RewardCandidate)
        return self._brief.env, candidate.env_args

    def analyse(self, history: list[SessionIteration]) -> None:
        """Let the model sum up; a report can do without."""
        if not history:
            return
        past = SessionHistory.of(self._folder, history)
        story = past.text(self._brief.threshold)
        shown = self._shown(past.candidates[past.best.number].env_args)
        try:
            once(self._folder.analysis, Analysis, lambda: analyse(self._models, shown, story))
        except TelicError as error:
            self._brief.tell(LogMessage(message=f"no analysis was written: {error}"))

    def _lessons(self) -> str:
        """Return what earlier sessions learned, as it was when this one began."""
        look_up = partial(recall, self._folder, self._brief.env, self._brief.intent)
        return once(self._folder.memory, Memory, look_up).text()

    def _elicited(self) -> Elicited:
        """Return the model's reading of the intent; asked once, then read from its reply."""
        return elicit(self._models, scene(self._brief.intent, self._spec))

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
