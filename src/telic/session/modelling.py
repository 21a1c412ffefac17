"""A model as a session's author: it reads, writes, reviews, revises, watches and sums up."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from telic.agents.analyst import analyse
from telic.agents.author import elicit, problem_text, scene, write_both, write_judge, write_reward
from telic.agents.records import Analysis, Elicited, Revision
from telic.agents.reviewer import review
from telic.agents.reviser import Flaw, revise
from telic.agents.watching import second_opinion
from telic.composer.compose import Composition
from telic.core.events import Listener, LogMessage
from telic.envs.spec import EnvSpec
from telic.errors import RewardError, TelicError
from telic.judges.trial import Trial, failure, try_out
from telic.judges.verdict import Verdict
from telic.llm import Models
from telic.session.bounds import bounds_text, within
from telic.session.memory import Memory, recall
from telic.session.records import Candidate, Iteration, SessionConfig, Variant
from telic.session.story import Story
from telic.session.weights import weights_in
from telic.session.work import Asked, once
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder
from telic.training.presets import for_device, preset

_LOOKED = "looked"


class ModelAuthor:
    """Asks a model, or whoever answers work orders, for everything."""

    def __init__(
        self,
        models: Models,
        config: SessionConfig,
        folder: SessionFolder,
        spec: EnvSpec,
        tell: Listener,
    ) -> None:
        self._models = models
        self._config = config
        self._folder = folder
        self._spec = spec
        self._tell = tell
        self._shown = scene(config.intent, spec)
        self._preset = preset(for_device("default", config.device), config.env).settings

    def ask(self) -> Asked:
        """Let the model make the intent measurable."""
        elicited = self._elicited()
        return Asked(criteria=self._config.criteria or elicited.criteria, doubts=elicited.ambiguous)

    def write(self, asked: Asked) -> Composition:
        """Let two authors who do not see one another write reward and judge."""
        reward, judge = write_both(
            self._models, self._shown, asked.criteria, bounds_text(self._preset), self._lessons()
        )
        elicited = self._elicited()
        settings, told = within(reward.settings, self._preset)
        return Composition(
            intent=self._config.intent,
            env=self._spec.id,
            criteria=asked.criteria,
            reward=reward.source,
            judge=judge.source,
            env_args=self._env_args(elicited),
            settings=settings,
            steps=reward.steps,
            doubts=(*asked.doubts, *told),
            not_understood=(),
            motions=elicited.puppet,
            fine=elicited.fine,
        )

    def improve(self, written: Composition, trial: Trial) -> Composition | None:
        """Let a reviewer look for bugs and exploits, and the authors mend what it finds."""
        found = review(
            self._models, self._shown, written.criteria, written.reward, written.judge, trial
        )
        changes: dict[str, object] = {}
        if found.reward_problems:
            problem = problem_text(found.reward_problems, written.reward)
            reward = write_reward(
                self._models,
                self._shown,
                written.criteria,
                bounds_text(self._preset),
                self._lessons(),
                problem,
            )
            settings, _ = within(reward.settings, self._preset)
            changes |= {"reward": reward.source, "steps": reward.steps, "settings": settings}
        if found.judge_problems:
            problem = problem_text(found.judge_problems, written.judge)
            judge = write_judge(self._models, self._shown, written.criteria, problem)
            changes["judge"] = judge.source
        return written.model_copy(update=changes) if changes else None

    def revise(self, history: list[Iteration], notes: tuple[str, ...]) -> Candidate:
        """Let the model look around and decide what to try next."""
        story = Story.of(self._folder, history)
        told = f"{story.text(self._config.threshold, notes)}\n\n{self._lessons()}".rstrip()
        revision = revise(
            self._models,
            self._shown,
            told,
            story.show,
            story.candidates,
            partial(self._flaw, story),
        )
        return self._candidate(revision, story)

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Let the model look at some of the episodes that code has judged."""
        if not self._config.vision:
            return verdicts
        titles = [each.title for each in read_record(self._folder.author, Composition).criteria]
        return second_opinion(
            self._models,
            self._config.intent,
            titles,
            episodes,
            verdicts,
            episodes[0].parent / _LOOKED,
        )

    def analyse(self, history: list[Iteration]) -> None:
        """Let the model sum up; a report can do without."""
        if not history:
            return
        told = Story.of(self._folder, history).text(self._config.threshold)
        try:
            once(self._folder.analysis, Analysis, lambda: analyse(self._models, self._shown, told))
        except TelicError as error:
            self._tell(LogMessage(message=f"no analysis was written: {error}"))

    def _lessons(self) -> str:
        """Return what earlier sessions learned, as it was when this one began."""
        look_up = partial(recall, self._folder, self._config)
        return once(self._folder.memory, Memory, look_up).text()

    def _elicited(self) -> Elicited:
        """Return the model's reading of the intent; asked once, then read from its reply."""
        return elicit(self._models, self._shown)

    def _env_args(self, elicited: Elicited) -> dict[str, object]:
        found: dict[str, object] = {"max_episode_steps": self._steps(elicited.seconds)}
        if "terminate_when_unhealthy" in self._spec.arguments:
            found["terminate_when_unhealthy"] = elicited.ends_when_it_falls
        return found

    def _steps(self, seconds: float) -> int:
        return max(10, round(seconds / (self._spec.dt_s or 1.0)))

    def _flaw(self, story: Story, revision: Revision) -> Flaw | None:
        """Say what is wrong with a revision: weights of no term, or what examples show."""
        candidate = self._candidate(revision, story)
        try:
            known = weights_in(candidate.reward)
        except RewardError as error:
            return Flaw(str(error))
        named = {name for each in revision.weights for name in each}
        if unknown := sorted(named - set(known)):
            return Flaw(f"No weight is named {', '.join(unknown)}; there are: {', '.join(known)}.")
        if revision.source is None:
            return None  # it ran before
        trial = self._tried(candidate)
        text = "\n".join(f"- {each}" for each in trial.reward_problems)
        # What could not be run has no examples.
        return Flaw(text, is_fatal=not trial.examples) if text else None

    def _tried(self, candidate: Candidate) -> Trial:
        """Try a revised reward where the first one was tried, beside the same judge."""
        written = read_record(self._folder.author, Composition)
        try:
            return try_out(
                self._config.env,
                candidate.env_args,
                candidate.reward,
                written.judge,
                written.motions,
                written.fine,
                self._config.threshold,
                self._folder.path / "trial",
            )
        except TelicError as error:
            return failure(error)

    def _candidate(self, revision: Revision, story: Story) -> Candidate:
        base = story.candidates[revision.based_on]
        env_args = dict(base.env_args)
        if revision.seconds is not None:
            env_args["max_episode_steps"] = self._steps(revision.seconds)
        can_fall = "terminate_when_unhealthy" in self._spec.arguments
        if revision.ends_when_it_falls is not None and can_fall:
            env_args["terminate_when_unhealthy"] = revision.ends_when_it_falls
        settings, told = within({**base.settings, **revision.settings}, self._preset)
        kept = {} if revision.source else base.variants[self._variant(story, revision)].weights
        sets = revision.weights or ({},)
        return Candidate(
            reward=revision.source or base.reward,
            variants=tuple(Variant(weights={**kept, **each}, warm=revision.warm) for each in sets),
            env_args=env_args,
            settings=settings,
            steps=revision.steps or base.steps,
            parent=revision.based_on,
            change="; ".join((revision.change, *told)),
            diagnosis=revision.diagnosis,
            lessons=revision.lessons,
        )

    def _variant(self, story: Story, revision: Revision) -> int:
        return next(each for each in story.history if each.number == revision.based_on).variant
