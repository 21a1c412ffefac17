"""Certify a pass: check what policies that proved the threshold were judged by and trained with.

A pass needs the very judge and the very reward that met their trial. Their texts are hashed in the
trial and again where they are used, and compared at the end: a file that was changed in between, by
hand or between a kill and a resume, proves nothing. A reward that was revised since is tried with
the same judge on the same examples. Then the judge is given mutants of the episodes that it passed
(`telic.judges.mutants`), and somebody else must say that these are good ones: a robot led by hand,
the composer's own reading of the words, or the environment's own reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from telic.authors.author import try_written
from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    reward_text,
    weights_in,
    with_weights,
)
from telic.composer.compose import compose
from telic.core.config import Record
from telic.errors import Refused, TelicError
from telic.judges.code import judge_files
from telic.judges.criteria import Composition
from telic.judges.mutants import CUT, FROZEN, MutantCount, counts, mutants_of
from telic.judges.recorder import RecordedFile, is_unchanged
from telic.judges.validation import Trial, bad_examples, same_stick, text_hash
from telic.judges.verdict import Verdict
from telic.session.control import SessionWork
from telic.storage.files import read_record, write_json
from telic.storage.layout import MemberFolder
from telic.storage.reading import file_hash, read_text
from telic.storage.trajectories import Trajectory, read_trajectory, write_trajectory

OWN_EXAMPLE = "no good example but its own"
_WATCHED = (0.1, 0.5, 0.9)
"""shares of the passing episodes, by score, below those whose mutants are judged"""
_CLEARLY = 0.25
"""of the range of the bad habits' own returns, by which a good episode must be above them"""


class Certificate(Record):
    """Why the verdict of a session can be believed, or not."""

    schema_version: Literal[1] = 1
    judge_hash: str | None
    reward_hashes: dict[str, str]
    """by policy, of the reward that it was trained with"""
    good: str | None
    """who says, besides the judge, that what it passes is good; None: nobody"""
    mutants: tuple[MutantCount, ...] = ()
    doubts: tuple[str, ...] = ()
    """why it is not believed; empty: it is"""
    limits: tuple[str, ...] = ()


class _Episode(NamedTuple):
    """A judged episode."""

    trajectory: Trajectory
    verdict: Verdict


_NOT_JUDGED = Verdict(source="code", score=None)


def sealed(work: SessionWork, iteration: SessionIteration, judge_hash: str) -> SessionIteration:
    """Return the iteration with the hashes of its judge and rewards.

    `judge_hash` is that of the judge's file from before it was used.
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


def certify(work: SessionWork, written: Composition, iteration: SessionIteration) -> Certificate:
    """Look for reasons not to believe that the policies of an iteration passed."""
    return _Certifier(work, written, iteration).certificate()


class _Certifier:
    """What a pass rests on, and what speaks against it."""

    def __init__(
        self, work: SessionWork, written: Composition, iteration: SessionIteration
    ) -> None:
        self._work, self._written, self._iteration = work, written, iteration
        self._threshold = work.config.threshold
        self._files = work.folder.iteration(iteration.number)
        self._candidate = read_record(self._files.candidate, RewardCandidate)
        self._where = (work.config.env, self._candidate.env_args)
        self._trial = read_record(work.folder.trial, Trial)
        self._proving = [each for each in iteration.members if each.low >= self._threshold]

    def certificate(self) -> Certificate:
        doubts = [*self._work.records.doubts(), *self._changed_evidence()]
        doubts += [*_of_trial(self._trial), *self._changed_judge()]
        doubts += [*self._rewards(), *self._sticks()]
        good, limits, found = self._trial.good, (), ()
        if self._proving:
            episodes = self._episodes(max(self._proving, key=lambda member: member.low))
            reference = self._reference()
            good, limits = self._good(episodes, reference)
            found, passing = self._mutants(episodes)
            if FROZEN in passing and self._may_freeze(episodes, reference):
                passing = [name for name in passing if name != FROZEN]
            doubts += _of_mutants(self._trial, found, passing)
        if good is None:
            doubts.append(
                "there is no good example: nobody but the judge says that what it passes is right"
            )
        return Certificate(
            judge_hash=self._iteration.judge_hash,
            reward_hashes=self._iteration.reward_hashes,
            good=good,
            mutants=found,
            doubts=tuple(dict.fromkeys(doubts)),
            limits=limits,
        )

    # ---- what was used

    def _changed_evidence(self) -> Iterator[str]:
        """Yield where a policy, or an episode of it, is no longer the one that was judged."""
        for member in self._proving:
            policy = MemberFolder(self._files.run.path / member.member).checkpoint(member.step)
            if not policy.is_file() or file_hash(policy) != member.policy_hash:
                yield f"the policy of {member.member} is not the one that was judged"
            for index, verdict in enumerate(member.judgement.verdicts):
                path = self._files.episode(member.member, index)
                if not verdict.recording or not is_unchanged(RecordedFile(path, verdict.recording)):
                    yield f"episode {index} of {member.member} is not the one that was judged"
                    break

    def _changed_judge(self) -> Iterator[str]:
        used = self._iteration.judge_hash
        if used is None:
            yield f"which judge judged iteration {self._iteration.number} is not on record"
            return
        now = text_hash(read_text(self._work.folder.judge))
        judges = {text_hash(self._written.judge), used, now}
        if self._trial.was_run and judges != {self._trial.judge_hash}:
            yield "the judge was changed after its trial"

    def _rewards(self) -> Iterator[str]:
        """Yield what is wrong with the rewards of the policies that prove it."""
        for variant in dict.fromkeys(member.variant for member in self._proving):
            text = reward_text(self._candidate, variant)
            for member in (each for each in self._proving if each.variant == variant):
                on_disk = MemberFolder(self._files.run.path / member.member).reward_code
                now = text_hash(read_text(on_disk)) if on_disk.exists() else None
                used = self._iteration.reward_hashes.get(member.member)
                if used is None:
                    yield f"which reward {member.member} was trained with is not on record"
                elif {now, used} != {text_hash(text)}:
                    yield f"the reward of {member.member} was changed after it was proposed"
            if not self._trial.was_run:
                continue  # said already
            tried = self._trial
            if not self._is_tried(text):
                changes = {"reward": text, "env_args": self._candidate.env_args}
                tried = try_written(self._work.brief, self._written.model_copy(update=changes))
                write_json(self._files.certificate, tried)
                yield from tried.judge_problems if tried.was_run else _of_trial(tried)
            yield from tried.reward_problems

    def _is_tried(self, text: str) -> bool:
        """Return whether the first trial was of this very reward, in this very environment."""
        first, trial = self._written.reward, self._trial
        is_own = text in (with_weights(first, weights_in(first)), first)
        is_own = is_own and text_hash(first) == trial.reward_hash
        return is_own and self._candidate.env_args == trial.env_args

    def _sticks(self) -> Iterator[str]:
        """Yield where real episodes were measured otherwise than the examples."""
        stick = self._trial.stick
        for member in self._proving if stick else ():
            for verdict in member.judgement.verdicts:
                # A judge that a package brings adds its own leaves behind these.
                if verdict.leaves and not same_stick(stick, verdict.leaves[: len(stick)]):
                    yield "the judge measured the policies with another stick than the examples"
                    return

    # ---- the good example

    def _episodes(self, member: MemberScore) -> list[_Episode]:
        """Return a poor, a median and a good one of the episodes that a policy passed on."""
        verdicts = member.judgement.verdicts
        passed = [
            (verdict.score, index)
            for index, verdict in enumerate(verdicts)
            if verdict.score is not None and verdict.score >= self._threshold
        ]
        order = [index for _, index in sorted(passed)]
        chosen = {order[round(share * (len(order) - 1))] for share in _WATCHED} if order else ()
        paths = {index: self._files.episode(member.member, index) for index in sorted(chosen)}
        return [
            _Episode(read_trajectory(path, self._where), verdicts[index])
            for index, path in paths.items()
            if path.exists()
        ]

    def _good(
        self, episodes: Sequence[_Episode], reference: Composition | None
    ) -> tuple[str | None, tuple[str, ...]]:
        """Return who else says that the episodes are good ones, and what that narrows."""
        if self._trial.good is not None:
            return self._trial.good, ()
        if any(example.is_good for example in self._trial.examples):
            return None, ()  # there is one, and the judge does not know it
        if reference is not None and reference.judge != self._written.judge:
            scores = [verdict.score or 0.0 for verdict in self._judged(reference, episodes)]
            agrees = scores and float(np.mean(scores)) >= self._threshold
            return ("the composer's own reading of the words" if agrees else None), ()
        if self._own_reward_agrees(episodes):
            return "the environment's own reward", ()
        if reference is not None:
            return "the composer's measured criteria", (OWN_EXAMPLE,)
        return None, ()

    def _reference(self) -> Composition | None:
        """Return what the composer makes of the words; None unless it understands them all."""
        brief, is_own = self._work.brief, self._work.config.model is None
        criteria, shown = (self._written.criteria, brief.reference) if is_own else (None, None)
        try:
            made = compose(brief.config.intent, brief.spec, criteria, shown)
        except TelicError:
            return None  # it says no: nobody else has read the words
        return None if made.not_understood and not is_own else made

    def _own_reward_agrees(self, episodes: Sequence[_Episode]) -> bool:
        """Return whether the environment pays these episodes clearly more than every bad habit."""
        bad = bad_examples(self._trial.examples, self._trial.fine)
        paid = [each.own_return for each in bad if each.own_return is not None]
        own = [float(np.sum(each.trajectory.columns["env_reward"])) for each in episodes]
        if not paid or not own or np.ptp(paid) <= 0.0:
            return False
        return min(own) > max(paid) + _CLEARLY * float(np.ptp(paid))

    # ---- mutants

    def _mutants(self, episodes: Sequence[_Episode]) -> tuple[tuple[MutantCount, ...], list[str]]:
        """Let the judge see mutants; return what each criterion noticed, and mutants that pass."""
        spec = self._work.brief.spec
        families = [mutants_of(episode.trajectory, spec) for episode in episodes]
        mutants = [mutant for family in families for mutant in family.values()]
        try:
            judged = self._judged(self._written, [_Episode(each, _NOT_JUDGED) for each in mutants])
        except Refused:
            return (), []
        verdicts = iter(judged)
        seen = [{name: (each, next(verdicts)) for name, each in own.items()} for own in families]
        passing = [
            name
            for family in seen
            for name, (_, verdict) in family.items()
            if verdict.score is not None and verdict.score >= self._threshold
        ]
        originals = [(episode.trajectory, episode.verdict) for episode in episodes]
        return counts(self._written.criteria, originals, seen, spec), passing

    def _judged(self, by: Composition, episodes: Sequence[_Episode]) -> list[Verdict]:
        """Let a judge see episodes that are written for it, in a confined worker."""
        folder = self._files.path / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"episode_{index:02d}.npz" for index in range(len(episodes))]
        for path, episode in zip(paths, episodes, strict=True):
            write_trajectory(path, episode.trajectory)
        return judge_files(by.judge, paths, folder / "judge", self._where)

    def _may_freeze(self, episodes: Sequence[_Episode], reference: Composition | None) -> bool:
        """Return whether staying as it began is right here: an upright pole is to be kept so.

        Either doing nothing is, or the composer, who has read every word, passes each frozen robot
        that the judge passes: one that began where it should get to may stay there.
        """
        if "does nothing" in self._trial.fine:
            return True
        if reference is None:
            return False
        spec = self._work.brief.spec
        mutants = [mutants_of(each.trajectory, spec)[FROZEN] for each in episodes]
        frozen = [_Episode(each, _NOT_JUDGED) for each in mutants]
        ours, theirs = (self._judged(by, frozen) for by in (self._written, reference))
        return all(
            (their.score or 0.0) >= self._threshold
            for our, their in zip(ours, theirs, strict=True)
            if (our.score or 0.0) >= self._threshold
        )


def _of_trial(trial: Trial) -> Iterator[str]:
    if not trial.was_run:
        why = " ".join(dict.fromkeys((*trial.judge_problems, *trial.reward_problems)))
        yield f"judge and reward could not be tried on examples: {why or 'nobody knows why'}"
        return
    yield from trial.judge_problems
    if trial.judge_problems and trial.good is None:
        yield "with such a judge, nothing says whether the reward pays bad habits more"


def _of_mutants(
    trial: Trial, found: Sequence[MutantCount], passing: Sequence[str]
) -> Iterator[str]:
    """Yield what mutants show to be wrong with the judge."""
    stands = "does nothing" in trial.fine
    if FROZEN in passing:
        yield "the judge passes a recording in which the robot is frozen where it began"
    if CUT in passing:
        yield "the judge passes a recording that is cut short after a twentieth"
    weights = {leaf.title: leaf.weight for leaf in trial.stick}
    for count in found:
        # Of a robot at rest nothing is left that a mutant could change.
        counts_here = not stands and weights.get(count.criterion, 0.0) > 0.0 and count.total > 0
        if counts_here and not count.caught and count.changed == count.total:
            yield f'the criterion "{count.criterion}" notices none of {count.total} mutants'
