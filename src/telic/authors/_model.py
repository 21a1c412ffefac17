"""Session author based on language and vision models.

Each role's prompt is a template in prompts/. The authors of reward and judge see the criteria and
the robot, but never each other's code. Only the reviewer sees both files, and authors only receive
findings on the file that they wrote. An objection stays open until a reviewer withdraws it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from telic.authors._cast import Answer, RoleModels
from telic.authors._context import calls, configured, criterion_words, example_table, phase_words
from telic.authors._history import SessionHistory
from telic.authors._second_reader import able_reading, conditions, not_judged, stated_seconds
from telic.authors._vision import VisionJudge, contrast_of
from telic.authors.answers import Analysis, Elicited, Review, Revision, WrittenJudge, WrittenReward
from telic.authors.author import Brief, MeasurableIntent, try_written
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    check_judge,
    check_reward,
    structure_text,
    weights_in,
    with_weights,
)
from telic.authors.footage import Footage
from telic.core.events import LogMessage
from telic.errors import RewardError, TelicError
from telic.judges.criteria import Composition, Criterion, Objection
from telic.judges.criteria_check import (
    criteria_problems,
    has_problem,
    measured_problems,
    with_measures,
)
from telic.judges.failure_modes import FAILURE_MODES
from telic.judges.measured import JudgeFile, measured_by_host, read_judge
from telic.judges.validation import JudgeValidation, text_hash
from telic.judges.verdict import Verdict
from telic.llm import Image
from telic.storage.files import once, read_record
from telic.storage.layout import IterationFolder
from telic.training.job import PpoSettings
from telic.training.plan import for_device, preset_for

File = TypeVar("File", WrittenReward, WrittenJudge)
# Bounds of the trainer's settings: factors relative to the preset for environment-dependent ones
# and absolute ranges for the rest. A preset outside its range extends the range.
_FACTORS = {"learning_rate": (0.25, 4.0), "target_kl": (0.25, 3.0), "epochs": (0.3, 2.0)}
_RANGES = {
    "gamma": (0.95, 0.999),
    "gae_lambda": (0.8, 1.0),
    "clip": (0.1, 0.4),
    "entropy_coef": (0.0, 0.05),
    "value_coef": (0.1, 2.0),
    "log_std": (-2.0, 0.5),
}
_MAX_TRIES = 3
_NO_REWARD = WrittenReward(
    reasoning="", source="def reward_fn(*_):\n    return 0.0, {'none': 0.0}", steps=10_000
)
_ASK_AGAIN = (
    "Use a stronger model, or start from scratch with --fresh: the same command would only "
    "reuse the paid replies."
)
_HARDEST = 0.6
"""maximum difficulty of terrain that may be requested"""


class ModelAuthor:
    """Author that delegates every step to a model or to work orders."""

    def __init__(self, cast: RoleModels, brief: Brief) -> None:
        self._cast, self._brief, self._config = cast, brief, brief.config
        self._folder, self._spec = brief.folder, brief.spec
        self._preset = preset_for(
            for_device("default", brief.config.device), brief.config.env
        ).settings
        self._replies: dict[str, str] = {}
        """replies of the authors to objections to their latest files"""

    def read(self) -> MeasurableIntent:
        """Elicit measurable criteria, and let a second reader find words without a criterion."""
        elicited = self._elicited
        criteria = with_measures(self._config.criteria or elicited.criteria)
        left = not_judged(self._config.intent, self._spec, criteria, elicited.covered)
        return MeasurableIntent(
            criteria=criteria,
            doubts=elicited.ambiguous,
            not_understood=elicited.not_understood,
            dropped=tuple(words for words in left if words not in elicited.not_understood),
            covered=elicited.covered,
        )

    @cached_property
    def _elicited(self) -> Elicited:
        """Elicit the intent, and repeat the request while the criteria have problems."""

        def flaw(elicited: Elicited, is_last: bool) -> str | None:
            problems: Sequence[str] = self._criteria_problems(elicited)
            wanted = MeasurableIntent(criteria=with_measures(elicited.criteria))
            if not (problems or is_last or self._config.criteria or _in_code(wanted.criteria)):
                written = measured_by_host(self._composed(elicited, wanted, _NO_REWARD))
                problems = try_written(self._brief, written).judge_problems
            answer = f"\n```json\n{elicited.model_dump_json(exclude_defaults=True)}\n```"
            lines = ("", *(f"- {problem}" for problem in problems), answer)
            return "\n".join(lines) if problems else None

        here = configured(self._config.env, {})
        return self._ask_until("elicitor", Elicited, flaw, failure_modes=FAILURE_MODES, here=here)

    def _ask_until(
        self,
        role: str,
        answer: type[Answer],
        flaw: Callable[[Answer, bool], str | None],
        **values: Any,
    ) -> Answer:
        """Request answers until one has no flaw. Each request lists the flaws of earlier answers.

        The arguments of `flaw` are an answer and whether it is the last attempt. Raises RewardError
        if the last answer is flawed.
        """
        refusals: list[str] = []
        for left in reversed(range(_MAX_TRIES)):
            given = self._cast.ask(role, answer, refusals=refusals, **values)
            problem = flaw(given, not left)
            if problem is None:
                return given
            refusals.append(problem)
        raise RewardError(
            f"The {role} returned no usable answer in {_MAX_TRIES} attempts. {refusals[-1][:500]}",
            hint=_ASK_AGAIN,
        )

    def _criteria_problems(self, elicited: Elicited) -> list[str]:
        criteria, spec = with_measures(elicited.criteria), self._spec
        found = criteria_problems(criteria, elicited.phases, spec, elicited.fine, elicited.terrain)
        problems, stated = list(found), stated_seconds(self._config.intent)
        if elicited.seconds < 0.9 * min(stated, 60.0):
            problems.append(f"The prompt states {stated:g} s: `seconds` is {elicited.seconds:g}.")
        usable = [each for each in criteria if each.measure and not has_problem(each, spec)]
        if usable:
            folder, args = self._folder.path / "criteria", self._env_args(elicited)
            problems += measured_problems(self._config.env, args, usable, folder)
        return problems

    def _env_args(self, elicited: Elicited) -> dict[str, object]:
        env_args = self._episode_args(elicited)
        if "terrain" in self._spec.arguments and elicited.terrain != "flat":
            env_args |= {"terrain": elicited.terrain, "terrain_start": elicited.terrain_start}
            env_args["terrain_hardest"] = _HARDEST
        return env_args | self._stated

    @cached_property
    def _stated(self) -> dict[str, Any]:
        """Conditions that the composer reads in the intent, which no answer can change."""
        with suppress(TelicError):
            made, _ = able_reading(self._config.intent, self._spec)
            return conditions(made, ("terrain", "terrain_start", "terrain_hardest", "starts"))
        return {}

    # ---- reward and judge

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Request a reward and, independently, judge code for criteria that lack a measure."""
        elicited = self._elicited
        env_args, in_code = self._env_args(elicited), _in_code(wanted.criteria)
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(self._write, WrittenReward, env_args, wanted.criteria)
            judging = pool.submit(self._write, WrittenJudge, env_args, in_code) if in_code else None
            reward, judge = writing.result(), judging.result().source if judging else ""
        return self._composed(elicited, wanted, reward, judge)

    def _composed(
        self, elicited: Elicited, wanted: MeasurableIntent, reward: WrittenReward, judge: str = ""
    ) -> Composition:
        settings, moved = within(reward.settings, self._preset)
        return Composition(
            intent=self._config.intent,
            env=self._spec.id,
            criteria=wanted.criteria,
            phases=elicited.phases,
            reward=reward.source,
            judge=judge,
            env_args=self._env_args(elicited),
            settings=settings,
            steps=reward.steps,
            doubts=(*wanted.doubts, *moved),
            not_understood=wanted.not_understood,
            dropped=wanted.dropped,
            covered=wanted.covered,
            motions=elicited.demonstration,
            fine=elicited.fine,
        )

    def _write(
        self,
        answer: type[File],
        env_args: dict[str, Any],
        criteria: Sequence[Criterion],
        problems: Sequence[str] = (),
        source: str = "",
        refused: Collection[str] = (),
    ) -> File:
        """Request a source file until it passes the static checks.

        A request for a rewrite includes the file and all its problems. `refused` holds the hashes
        of rejected programs (not accepted again).
        """
        is_reward = answer is WrittenReward

        def flaw(written: File, _: bool) -> str | None:
            try:
                (check_reward if is_reward else check_judge)(written.source)
            except TelicError as error:
                return f"{error}\n\n```python\n{written.source}\n```"
            is_same = program_hash(written.source) in refused
            return "This program was already rejected. Fix the problems." if is_same else None

        return self._ask_until(
            "reward_author" if is_reward else "judge_author",
            answer,
            flaw,
            criteria=[criterion_words(each) for each in criteria],
            phases=phase_words(self._elicited.phases),
            here=configured(self._config.env, env_args),
            problems=problems,
            source=source,
            calls=calls(self._spec),
            bounds=_bounds_text(self._preset),
        )

    def review(
        self, written: Composition, trial: JudgeValidation, may_rewrite: bool = True
    ) -> Composition | None:
        """Request a review of both files for bugs and exploits, and rewrites to fix problems."""
        found = self._cast.ask(
            "reviewer",
            Review,
            criteria=[criterion_words(each) for each in written.criteria],
            phases=phase_words(written.phases),
            here=configured(self._config.env, written.env_args),
            written=written,
            threshold=self._config.threshold,
            code=read_judge(written.judge).code,
            table=example_table(trial.examples, self._config.threshold) if trial.examples else "",
            found=(*trial.reward_problems, *trial.judge_problems),
            objections=[each for each in written.objections if each.withdrawn is None],
            replies=self._replies,
        )
        objections, own = reviewed(written, found), weights_in(written.reward)
        changes: dict[str, object] = {"objections": objections}
        weights = {name: value for name, value in found.weights.items() if name in own}
        if weights and may_rewrite:
            weighted = with_weights(written.reward, own | weights)
            written = written.model_copy(update={"reward": weighted})
        self._replies = {}
        for about, measured in (("reward", trial.reward_problems), ("judge", trial.judge_problems)):
            still = [each for each in objections if each.about == about and each.withdrawn is None]
            problems = (*measured, *(each.text for each in still))
            if not problems or not may_rewrite:
                continue
            rewritten = self._rewrite(about, written, problems, {each.file for each in still})
            if rewritten is None:
                continue  # keep the file and its objections
            self._replies[about] = rewritten.reasoning
            changes[about] = rewritten.source
            if isinstance(rewritten, WrittenReward):
                settings, _ = within(rewritten.settings, self._preset)
                changes |= {"steps": rewritten.steps, "settings": settings}
        return written.model_copy(update=changes)

    def _rewrite(
        self, about: str, written: Composition, problems: Sequence[str], refused: Collection[str]
    ) -> WrittenReward | WrittenJudge | None:
        """Request a rewritten file, or return None to keep the current one."""
        is_reward, in_code = about == "reward", _in_code(written.criteria)
        if not is_reward and not in_code:
            return None  # without judge code
        source = written.reward if is_reward else read_judge(written.judge).code
        given = problems, source, {*refused, program_hash(source)}
        try:
            if is_reward:
                return self._write(WrittenReward, written.env_args, written.criteria, *given)
            return self._write(WrittenJudge, written.env_args, in_code, *given)
        except RewardError as error:
            self._brief.emit(LogMessage(message=f"the {about} was kept unchanged: {error.message}"))
            return None

    # ---- revisions

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Request the next candidate until it can be trained. The last attempt may leave doubts."""
        past = SessionHistory.of(self._folder, history)
        written = read_record(self._folder.author, Composition)
        picture = self._median_picture(past, read_judge(written.judge))
        criteria = written.criteria
        revision = self._ask_until(
            "reviser",
            Revision,
            partial(self._flaw, past),
            images=picture,
            criteria=[criterion_words(each) for each in criteria],
            phases=phase_words(written.phases),
            here=configured(self._config.env, past.candidates[past.best.number].env_args),
            story=past.text(self._config.threshold, notes, self._config.iterations, criteria),
            bounds=_bounds_text(self._preset),
            calls=calls(self._spec),
            has_picture=bool(picture),
        )
        return self._candidate(revision, past)

    def _median_picture(self, past: SessionHistory, judge: JudgeFile) -> list[Image]:
        """Return a contact sheet of the median episode of the latest best policy, if available."""
        latest, best = past.history[-1], past.history[-1].best_member
        if best is None or not self._config.vision:
            return []
        files = self._folder.iteration(latest.number)
        where = self._config.env, past.candidates[latest.number].env_args
        try:
            episode = files.episode(best.member, best.median_episode)
            sheet = Footage(episode, files.judged_dir / "looked", where).sheet(judge)
            return [Image(data=sheet.read_bytes())]
        except TelicError as error:
            self._brief.emit(LogMessage(message=f"no image for the reviser: {error}"))
            return []

    def _flaw(self, past: SessionHistory, revision: Revision, is_last: bool) -> str | None:
        """Return the first problem with a revision's references, code or validation, or None.

        On the last attempt, problems found by validation are accepted if the reward runs.
        """
        if revision.based_on not in past.candidates:
            there = ", ".join(map(str, sorted(past.candidates)))
            return f"Iteration {revision.based_on} does not exist. Existing iterations: {there}."
        try:
            if revision.source is not None:
                check_reward(revision.source)
            candidate = self._candidate(revision, past)
            own = weights_in(candidate.reward)
        except TelicError as error:
            code = "" if revision.source is None else f"\n\n```python\n{revision.source}\n```"
            return f"{error}{code}"
        named = {name for weights in revision.weights for name in weights}
        if strange := sorted(named - set(own)):
            return f"Unknown weights: {', '.join(strange)}. Existing weights: {', '.join(own)}."
        if revision.source is None:
            return None  # unchanged code has run before
        written = read_record(self._folder.author, Composition)
        revised = {"env_args": candidate.env_args, "reward": candidate.reward}
        trial = try_written(self._brief, written.model_copy(update=revised))
        is_accepted = is_last and bool(trial.examples)  # without examples it failed to run
        problems = () if is_accepted else trial.reward_problems
        return "\n".join(f"- {problem}" for problem in problems) or None

    def _candidate(self, revision: Revision, past: SessionHistory) -> RewardCandidate:
        base = past.candidates[revision.based_on]
        env_args: dict[str, Any] = {**base.env_args, **self._episode_args(revision)}
        if "max_episode_steps" in env_args:  # a short episode may end before a failure
            now = base.env_args.get("max_episode_steps", self._spec.max_episode_steps) or 0
            env_args["max_episode_steps"] = max(env_args["max_episode_steps"], now)
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
        """Let the vision model watch some of the episodes and return the fused verdicts on all."""
        if not self._config.vision or not episodes:
            return verdicts
        written = read_record(self._folder.author, Composition)
        files = IterationFolder(episodes[0].parents[2])
        where = self._config.env, read_record(files.candidate, RewardCandidate).env_args
        trial = read_record(self._folder.trial, JudgeValidation)
        contrast = contrast_of(written, trial, self._config.threshold, where)
        folder = episodes[0].parent / "looked"
        eyes = VisionJudge(self._cast, read_judge(written.judge), folder, where, contrast)
        return eyes.second_opinion(episodes, verdicts)

    def analyze(
        self, history: list[SessionIteration], outcome: str = "", reasons: Sequence[str] = ()
    ) -> None:
        """Request an analysis of the session. If the request fails, the error is only logged."""
        if not history:
            return
        past = SessionHistory.of(self._folder, history)
        ask = partial(
            self._cast.ask,
            "analyst",
            Analysis,
            outcome=outcome or ("passed" if past.history[-1].passed else "did not pass"),
            reasons=reasons,
            story=past.text(self._config.threshold),
        )
        try:
            once(self._folder.analysis, Analysis, ask)
        except TelicError as error:
            self._brief.emit(LogMessage(message=f"no analysis was written: {error}"))

    def _episode_args(self, wanted: Elicited | Revision) -> dict[str, object]:
        """Return environment arguments for the requested episode length and end at a fall."""
        found: dict[str, object] = {}
        if wanted.seconds is not None:
            found["max_episode_steps"] = max(10, round(wanted.seconds / (self._spec.dt_s or 1.0)))
        is_known = "terminate_when_unhealthy" in self._spec.arguments
        if wanted.ends_when_it_falls is not None and is_known:
            found["terminate_when_unhealthy"] = wanted.ends_when_it_falls
        return found


def program_hash(source: str) -> str:
    """Return a hash of a program's AST, which ignores comments and formatting."""
    return text_hash(ast.dump(ast.parse(read_judge(source).code or source)))


def _in_code(criteria: Sequence[Criterion]) -> list[Criterion]:
    return [each for each in criteria if not each.measure]


def reviewed(written: Composition, found: Review) -> tuple[Objection, ...]:
    """Return all objections after a review: known and new objections except withdrawn ones."""
    reasons = {each.objection: each.why for each in found.withdrawn}
    objections = [
        each if each.withdrawn else each.model_copy(update={"withdrawn": reasons.get(each.number)})
        for each in written.objections
    ]
    known = {(each.about, each.text) for each in objections if each.withdrawn is None}
    given: dict[Literal["reward", "judge"], tuple[str, ...]] = {
        "reward": found.reward_problems,
        "judge": found.judge_problems,
    }
    for about, texts in given.items():
        file = program_hash(getattr(written, about))
        for text in texts:
            if (about, text) not in known:
                number = len(objections) + 1
                objections.append(Objection(number=number, about=about, text=text, file=file))
    return tuple(objections)


def bounds(preset: PpoSettings) -> dict[str, tuple[float, float]]:
    """Return the bounds of every adjustable setting."""
    allowed = {
        name: (min(low, getattr(preset, name)), max(high, getattr(preset, name)))
        for name, (low, high) in _RANGES.items()
    }
    for name, (low, high) in _FACTORS.items():
        usual = getattr(preset, name)
        allowed[name] = (low * usual, high * usual)
    return allowed


def _bounds_text(preset: PpoSettings) -> str:
    return "; ".join(
        f"`{name}` {low:g} to {high:g}, usually {getattr(preset, name):g}"
        for name, (low, high) in bounds(preset).items()
    )


def within(asked: Mapping[str, Any], preset: PpoSettings) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Clamp settings to their bounds and return the result with a message about each change."""
    allowed = bounds(preset)
    taken: dict[str, Any] = {}
    moved: list[str] = []
    for name, value in asked.items():
        if name not in allowed or isinstance(value, bool | str):
            moved.append(f"{name}={value} cannot be changed")
            continue
        low, high = allowed[name]
        kept = min(max(float(value), low), high)
        taken[name] = round(kept) if isinstance(getattr(preset, name), int) else kept
        if kept != value:
            moved.append(f"{name}={value:g} was clamped to {taken[name]:g}")
    return taken, tuple(moved)
