"""Certify a pass: check the judge and the rewards of policies that reached the threshold.

A pass requires exactly the judge and the reward that were validated. Their texts are hashed during
validation and when they are used, and the hashes are compared at the end. A reward revised after
validation is validated with the same judge on the same examples. The judge is also run on mutants
of the episodes that it passed (`telic.judges.mutants`), and on untrained policies recorded from the
same initial states. An independent source must confirm that passing episodes are good: a scripted
demonstration of the composer, its reading of the intent, or the environment's own reward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Literal, NamedTuple

import numpy as np

from telic.authors._second_reader import STATED, able_reading, conditions, stated_seconds
from telic.authors.author import try_written
from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    reward_text,
    weights_in,
    with_weights,
)
from telic.core.config import Record
from telic.core.seeds import derive
from telic.envs.factory import make
from telic.errors import BeyondLimits, Contradiction, Refused, TelicError
from telic.judges.code import judge_files
from telic.judges.criteria import Composition
from telic.judges.failure_modes import untrained_modes
from telic.judges.mutants import CUT, FROZEN, MutantCount, counts, mutants_of
from telic.judges.recorder import UNTRAINED, RecordedFile, RolloutSpec, is_unchanged, record
from telic.judges.validation import (
    ASKED,
    GOOD,
    INDEPENDENT,
    ExampleResult,
    JudgeValidation,
    bad_examples,
    passing_modes,
    same_criteria,
    text_hash,
)
from telic.judges.verdict import Verdict, at_quantiles
from telic.session._judgment import TrainedPolicy, episode_paths, start_seed
from telic.session.control import SessionWork
from telic.storage.files import read_record, write_json
from telic.storage.layout import MemberFolder
from telic.storage.reading import file_hash, read_text
from telic.storage.trajectories import Trajectory, read_trajectory, write_trajectory

_READING = "the composer's reading of the intent"
_OWN_EXAMPLE = "judge validated on its own demonstration only"
_OWN_READING = "no second reading of the prompt"
_SHORTER = "the episodes are shorter than the prompt states"
_UNTRAINED = 24
"""number of episodes recorded with untrained policies, and under the composer's conditions"""
_LENGTH, _ENDS = "max_episode_steps", "terminate_when_unhealthy"
"""environment arguments that a model may choose"""
_CONTRADICTS = 0.5
"""fraction of the threshold below which the score of a second judge contradicts a pass"""
_NOTHING = 0.05
"""credit below which a criterion is not met at all"""
_DURATION = re.compile(r"\bfor\b.*(?<!/)\b(s|secs?|seconds?|mins?|minutes?|hours?)\b|\d+.second")
_CLEARLY = 0.25
"""required margin of the return of good episodes, relative to the range over failure modes"""


class Certificate(Record):
    """Evidence for and against the verdict of a session."""

    schema_version: Literal[1] = 1
    judge_hash: str | None
    reward_hashes: dict[str, str]
    """hash of the training reward by policy"""
    good: str | None
    """independent confirmation that passing episodes are good, or None"""
    mutants: tuple[MutantCount, ...] = ()
    doubts: tuple[str, ...] = ()
    """reasons not to trust the verdict, if any"""
    limits: tuple[str, ...] = ()


class _Episode(NamedTuple):
    trajectory: Trajectory
    verdict: Verdict


def with_hashes(
    work: SessionWork, iteration: SessionIteration, judge_hash: str
) -> SessionIteration:
    """Return the iteration with the hashes of its judge and rewards.

    `judge_hash` is the hash of the judge's file before it was used.
    """
    run = work.folder.iteration(iteration.number).run
    rewards = {
        member.name: text_hash(read_text(member.reward_code))
        for member in run.members()
        if member.reward_code.exists()
    }
    is_same = text_hash(read_text(work.folder.judge)) == judge_hash
    return iteration.model_copy(
        update={"judge_hash": judge_hash if is_same else None, "reward_hashes": rewards}
    )


class Certifier:
    """Check of a passed iteration for reasons to doubt its verdict."""

    def __init__(
        self, work: SessionWork, written: Composition, iteration: SessionIteration
    ) -> None:
        self._work, self._written, self._iteration = work, written, iteration
        self._threshold = work.config.threshold
        self._files = work.folder.iteration(iteration.number)
        self._candidate = read_record(self._files.candidate, RewardCandidate)
        self._where = (work.config.env, self._candidate.env_args)
        self._is_own = work.config.model is None
        self._trial = read_record(work.folder.trial, JudgeValidation)
        self._proving = [each for each in iteration.members if each.low >= self._threshold]

    def certificate(self) -> Certificate:
        """Check the evidence and return it with all reasons to doubt it."""
        trial = self._trial
        doubts = [*self._work.records.doubts(), *self._changed_evidence(), *_validation(trial)]
        doubts += [*self._changed_judge(), *self._rewards(), *self._shortened()]
        good, limits, found = trial.good, (), ()
        if self._proving:
            best = max(self._proving, key=lambda member: member.low)
            episodes, (reference, theirs) = self._episodes(best), self._second_reading(best, doubts)
            good, limits = self._good(episodes, reference, theirs)
            if theirs is not None and theirs < self._threshold:
                limits = (*limits, f"a second reading of the prompt scores {theirs:.2f}")
            if not self._is_own and reference is None:
                limits = (*limits, _OWN_READING)
            coded = [each.title for each in self._written.criteria if not each.measure]
            if coded and _OWN_READING in limits and good not in (INDEPENDENT, _READING):
                doubts.append(f'only the judge\'s own code confirms "{coded[0]}"')
            try:
                found, passing = self._mutants(episodes)
            except Refused as error:
                found, passing = (), []
                doubts.append(f"the judge could not be run on mutants: {error}")
            if FROZEN in passing and not self._may_freeze(episodes, reference):
                doubts.append("the judge passes a recording of a frozen robot")
            if CUT in passing:
                doubts.append("the judge passes a recording cut after a twentieth of its length")
            for count in found:
                # Criteria measured by the host need no mutant check.
                is_code = count.criterion.partition(" (within ")[0] in coded
                if is_code and count.total and not count.caught:
                    name = count.criterion
                    doubts.append(f'the criterion "{name}" detects none of {count.total} mutants')
            doubts += self._untrained(reference)
        if good is None:
            doubts.append("no independent positive example: only the judge confirms the result")
        return Certificate(
            judge_hash=self._iteration.judge_hash,
            reward_hashes=self._iteration.reward_hashes,
            good=good,
            mutants=found,
            doubts=tuple(dict.fromkeys(doubts)),
            limits=limits,
        )

    # ---- evidence used for the verdict

    def _changed_evidence(self) -> Iterator[str]:
        """Yield policies and episodes that were modified after they were judged."""
        for member in self._proving:
            policy = MemberFolder(self._files.run.path / member.member).checkpoint(member.step)
            if not policy.is_file() or file_hash(policy) != member.policy_hash:
                yield f"the policy of {member.member} differs from the one that was judged"
            for index, verdict in enumerate(member.judgment.verdicts):
                path = self._files.episode(member.member, index)
                if not verdict.recording or not is_unchanged(RecordedFile(path, verdict.recording)):
                    yield f"episode {index} of {member.member} differs from the one that was judged"
                    break

    def _changed_judge(self) -> Iterator[str]:
        """Yield differences between the judge that was validated and the judge that was used."""
        used, trial = self._iteration.judge_hash, self._trial
        now = text_hash(read_text(self._work.folder.judge))
        if used is None:
            yield f"the judge of iteration {self._iteration.number} is not recorded"
        elif trial.was_run and {text_hash(self._written.judge), used, now} != {trial.judge_hash}:
            yield "the judge was changed after its validation"
        verdicts = [each for member in self._proving for each in member.judgment.verdicts]
        # Criteria of a judge from a package follow these.
        own = trial.criteria
        if own and any(
            each.criteria and not same_criteria(own, each.criteria[: len(own)]) for each in verdicts
        ):
            yield "the judge used different criteria for the policies than for the examples"

    def _rewards(self) -> Iterator[str]:
        """Yield problems with the rewards of the passing policies."""
        trial, first = self._trial, self._written.reward
        for variant in dict.fromkeys(member.variant for member in self._proving):
            text = reward_text(self._candidate, variant)
            for member in (each for each in self._proving if each.variant == variant):
                on_disk = MemberFolder(self._files.run.path / member.member).reward_code
                now = text_hash(read_text(on_disk)) if on_disk.exists() else None
                used = self._iteration.reward_hashes.get(member.member)
                if used is None:
                    yield f"the reward used to train {member.member} is not recorded"
                elif {now, used} != {text_hash(text)}:
                    yield f"the reward of {member.member} was changed after it was proposed"
            if not trial.was_run:
                continue  # already reported
            validated = trial
            is_first = text in (with_weights(first, weights_in(first)), first)
            is_first = is_first and text_hash(first) == trial.reward_hash
            if not is_first or self._candidate.env_args != trial.env_args:
                changes = {"reward": text, "env_args": self._candidate.env_args}
                validated = try_written(self._work.brief, self._written.model_copy(update=changes))
                write_json(self._files.certificate, validated)
                yield from validated.judge_problems if validated.was_run else _validation(validated)
            yield from validated.reward_problems

    def _shortened(self) -> Iterator[str]:
        """Yield a doubt if episodes of a model are shorter than the prompt states in seconds."""
        spec, stated = self._work.brief.spec, stated_seconds(self._work.config.intent)
        steps = self._candidate.env_args.get(_LENGTH, spec.max_episode_steps)
        if steps and spec.dt_s and steps * spec.dt_s < 0.9 * min(stated, 60.0) and not self._is_own:
            yield _SHORTER

    # ---- good example

    def _episodes(self, member: MemberScore) -> list[_Episode]:
        """Return the passed episodes of a policy with the lowest, median and highest score."""
        verdicts = member.judgment.verdicts
        passed = [
            (verdict.score, index)
            for index, verdict in enumerate(verdicts)
            if verdict.score is not None and verdict.score >= self._threshold
        ]
        chosen = set(at_quantiles([index for _, index in sorted(passed)]).values())
        paths = {index: self._files.episode(member.member, index) for index in sorted(chosen)}
        return [
            _Episode(read_trajectory(path, self._where), verdicts[index])
            for index, path in paths.items()
            if path.exists()
        ]

    def _second_reading(
        self, member: MemberScore, doubts: list[str]
    ) -> tuple[Composition | None, float | None]:
        """Return the composer's interpretation of the intent, and the mean score of its judge.

        The mean is over all episodes that passed, because the judge's scores would select a part.
        A partial interpretation can contradict a pass but not confirm it, and is not returned.
        """
        brief = self._work.brief
        own = (self._written.criteria, brief.reference) if self._is_own else ()
        try:
            made, refused = able_reading(brief.config.intent, brief.spec, *own)
        except TelicError as error:
            if isinstance(error, Contradiction | BeyondLimits):
                doubts.append(f"the composer considers the prompt impossible: {error.message}")
            return None, None
        if made is None:
            return None, None
        theirs, usual = None, brief.spec.max_episode_steps or 0
        asked, given = (
            args.get(_LENGTH, usual) for args in (made.env_args, self._candidate.env_args)
        )
        if given < 0.9 * asked and any(_DURATION.search(each.words) for each in made.covered):
            doubts.append(_SHORTER)
        for name, value in conditions(made, STATED).items():
            if not self._is_own and self._candidate.env_args.get(name) != value:
                doubts.append(f"the prompt requires {name} {value}, which the episodes lack")
        judged = enumerate(member.judgment.verdicts)
        passed = [at for at, verdict in judged if (verdict.score or 0.0) >= self._threshold]
        files = [self._files.episode(member.member, at) for at in passed]
        if made.judge != self._written.judge and (files := [x for x in files if x.exists()]):
            verdicts = judge_files(made.judge, files, self._files.path / "second", self._where)
            theirs = self._agreement(verdicts, "the passing episodes", doubts)
        ends = (args.get(_ENDS, True) for args in (made.env_args, self._candidate.env_args))
        if not self._is_own and (given < 0.9 * asked or len({*ends}) > 1):
            try:
                verdicts = self._as_read(member, made)
                whole = self._agreement(verdicts, "new episodes of its own length", doubts)
                theirs = whole if theirs is None else min(theirs, whole)
            except TelicError as error:
                doubts.append(f"{_READING} could not be applied to new episodes: {error}")
        return (
            (made, theirs) if self._is_own or not (made.not_understood or refused) else (None, None)
        )

    def _agreement(self, verdicts: Sequence[Verdict], what: str, doubts: list[str]) -> float:
        """Return the mean score of the composer's judge, and add what it contradicts to doubts."""
        scores = np.array([verdict.score or 0.0 for verdict in verdicts])
        mean, against = float(scores.mean()), (scores < _CONTRADICTS * self._threshold).mean()
        if mean < _CONTRADICTS * self._threshold:
            doubts.append(f"{_READING} scores {what} only {mean:.2f}")
        elif against > 1.0 - self._threshold:  # a judge may be wrong about some only
            doubts.append(f"{_READING} contradicts {against:.0%} of {what}")
        for scores in zip(*(each.criteria for each in verdicts if each.criteria), strict=False):
            if not scores[0].is_guard and np.mean([each.credit for each in scores]) < _NOTHING:
                text = f'the composer\'s criterion "{scores[0].title}" earns nothing'
                doubts.append(f"{text} in {what}")
        return mean

    def _as_read(self, member: MemberScore, made: Composition) -> list[Verdict]:
        """Judge new episodes as the composer reads the intent.

        The author of the judge also chose how long its episodes are and what ends them.
        """
        own = {k: v for k, v in self._candidate.env_args.items() if k not in (_LENGTH, _ENDS)}
        candidate = self._candidate.model_copy(update={"env_args": {**own, **made.env_args}})
        folder, run = self._files.path / "as_read", self._files.run.path
        policy = TrainedPolicy(candidate, MemberFolder(run / member.member), member.step)
        seed = derive("confirm", start_seed(self._work), self._iteration.number, 1, 0)
        order = policy.order(self._work.config, seed, episode_paths(folder, _UNTRAINED))
        where = self._work.config.env, candidate.env_args
        paths = [file.path for file in record(order, folder)]
        return judge_files(made.judge, paths, folder / "judge", where)

    def _good(
        self, episodes: Sequence[_Episode], reference: Composition | None, theirs: float | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """Return what confirms the episodes independently, and the limitations of the pass."""
        trial = self._trial
        if trial.good is not None and (self._is_own or trial.good == INDEPENDENT):
            return trial.good, ()
        if trial.good is None and any(example.name == GOOD for example in trial.examples):
            return None, ()  # the judge rejects the existing good example
        if theirs is not None:
            return (_READING if theirs >= self._threshold else None), ()
        bad = bad_examples(trial.examples, trial.fine)
        paid = [each.own_return for each in bad if each.own_return is not None]
        own = [float(np.sum(each.trajectory.columns["env_reward"])) for each in episodes]
        margin = float(np.ptp(paid)) if paid else 0.0
        if own and margin > 0.0 and min(own) > max(paid) + _CLEARLY * margin:
            return "the environment's built-in reward", ()
        if reference is not None:
            return "the composer's measured criteria", (_OWN_EXAMPLE,)
        # The composer cannot read this intent: the author's demonstration is the only good example.
        return trial.good, (_OWN_EXAMPLE,) if trial.good else ()

    # ---- mutants

    def _mutants(self, episodes: Sequence[_Episode]) -> tuple[tuple[MutantCount, ...], list[str]]:
        """Judge mutants and return counts per criterion and the names of passing mutants."""
        spec = self._work.brief.spec
        families = [mutants_of(episode.trajectory, spec) for episode in episodes]
        everything = [each for family in families for each in family.values()]
        verdicts = iter(self._judged(self._written, everything))
        seen = [{name: next(verdicts) for name in family} for family in families]
        passing = [
            name
            for family in seen
            for name, verdict in family.items()
            if verdict.score is not None and verdict.score >= self._threshold
        ]
        families_judged = [list(family.values()) for family in seen]
        return counts([each.verdict for each in episodes], families_judged), passing

    def _untrained(self, reference: Composition | None) -> Iterator[str]:
        """Yield the kinds of untrained policies that pass from the judged initial states."""
        work, candidate = self._work, self._candidate
        if self._is_own:
            return  # the composer's criteria are validated with telic itself
        folder = self._files.path / "untrained"
        order = RolloutSpec(
            policy=UNTRAINED,
            env=work.config.env,
            env_args=candidate.judged_args,
            seed=derive("confirm", start_seed(work), self._iteration.number, 0, 0),
            paths=episode_paths(folder, _UNTRAINED),
        )
        try:
            files = record(order, folder)
        except TelicError as error:
            yield f"the judge could not be run on untrained policies: {error}"
            return
        paths = [file.path for file in files]
        judged = judge_files(self._written.judge, paths, folder / "judge", self._where)
        asked = [False] * len(paths)
        if reference is not None:
            theirs = judge_files(reference.judge, paths, folder / "second", self._where)
            asked = [(other.score or 0.0) >= self._threshold for other in theirs]
        env = make(work.config.env, num_envs=1, **candidate.env_args)
        env.close()
        modes = cycle(untrained_modes(env).items())
        played = [
            ExampleResult(
                name=mode,
                is_good=False,
                score=verdict.score,
                reason=ASKED if is_asked else behavior,
            )
            for (mode, behavior), verdict, is_asked in zip(modes, judged, asked, strict=False)
        ]
        passing = passing_modes(self._written.criteria, played, self._trial.fine, self._threshold)
        for mode, mean in passing:
            yield f'the judge passes an untrained policy ("{mode}", {mean:.2f})'

    def _judged(self, by: Composition, trajectories: Sequence[Trajectory]) -> list[Verdict]:
        folder = self._files.path / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"episode_{index:02d}.npz" for index in range(len(trajectories))]
        for path, trajectory in zip(paths, trajectories, strict=True):
            write_trajectory(path, trajectory)
        return judge_files(by.judge, paths, folder / "judge", self._where)

    def _scores(self, by: Composition, trajectories: Sequence[Trajectory]) -> list[float]:
        return [verdict.score or 0.0 for verdict in self._judged(by, trajectories)]

    def _may_freeze(self, episodes: Sequence[_Episode], reference: Composition | None) -> bool:
        """Return whether not moving is a valid solution, e.g. for a pole that starts upright.

        Not moving is valid if doing nothing is acceptable, or if the composer's judge passes every
        frozen robot that this judge passes (a robot that starts at its goal may stay there).
        """
        if "does nothing" in self._trial.fine:
            return True
        if reference is None:
            return False
        spec = self._work.brief.spec
        frozen = [mutants_of(each.trajectory, spec)[FROZEN] for each in episodes]
        ours, theirs = self._scores(self._written, frozen), self._scores(reference, frozen)
        return all(
            their >= self._threshold
            for our, their in zip(ours, theirs, strict=True)
            if our >= self._threshold
        )


def _validation(trial: JudgeValidation) -> Iterator[str]:
    if not trial.was_run:
        why = " ".join(dict.fromkeys((*trial.judge_problems, *trial.reward_problems)))
        yield f"judge and reward could not be validated: {why or 'unknown reason'}"
        return
    yield from trial.judge_problems
    if trial.judge_problems and trial.good is None:
        yield "with such a judge, it is unknown whether the reward prefers failure modes"
