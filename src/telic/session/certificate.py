"""No certificate, no pass: what policies that proved the threshold were judged by and trained with.

A pass needs the very judge and the very reward that met their trial. Their texts are hashed in the
trial and again where they are used, and compared at the end: a file that was changed in between, by
hand or between a kill and a resume, proves nothing. A reward that was revised since is tried with
the same judge on the same examples. Then the judge is given mutants of the episodes that it passed
(`telic.judges.mutants`), and somebody else must say that these are good ones: a robot led by hand,
the composer's own reading of the words, or the environment's own reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
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
_WATCHED = 3
"""episodes of a policy whose mutants are judged"""
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


def sealed(work: SessionWork, iteration: SessionIteration, judge_hash: str) -> SessionIteration:
    """Return the iteration with the hashes of the judge and of the rewards that it rests on.

    Args:
        work: the session.
        iteration: as it was judged.
        judge_hash: of the judge's file, from before it was used.
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
    trial = read_record(work.folder.trial, Trial)
    proving = [member for member in iteration.members if member.low >= work.config.threshold]
    doubts = [*work.records.doubts(), *_changed_evidence(work, iteration, proving)]
    doubts += [*_of_trial(trial), *_changed_judge(work, written, trial, iteration)]
    doubts += _rewards(work, written, trial, iteration, proving)
    doubts += _sticks(trial, proving)
    good, limits, found = trial.good, (), ()
    if proving:
        best = max(proving, key=lambda member: member.low)
        episodes = _episodes(work, iteration, best)
        reference = _reference(work, written)
        good, limits = _good(work, written, trial, iteration, episodes, reference)
        found, passing = _mutants(work, written, iteration, episodes)
        if FROZEN in passing and _may_freeze(work, written, iteration, trial, episodes, reference):
            passing = [name for name in passing if name != FROZEN]
        doubts += _of_mutants(trial, found, passing)
    if good is None:
        doubts.append(
            "there is no good example: nobody but the judge says that what it passes is right"
        )
    return Certificate(
        judge_hash=iteration.judge_hash,
        reward_hashes=iteration.reward_hashes,
        good=good,
        mutants=found,
        doubts=tuple(dict.fromkeys(doubts)),
        limits=limits,
    )


# ------------------------------------------------------------------------------- what was used


def _changed_evidence(
    work: SessionWork, iteration: SessionIteration, proving: Sequence[MemberScore]
) -> Iterator[str]:
    """Yield where a policy, or an episode of it, is no longer the one that was judged."""
    files = work.folder.iteration(iteration.number)
    for member in proving:
        policy = MemberFolder(files.run.path / member.member).checkpoint(member.step)
        if not policy.is_file() or file_hash(policy) != member.policy_hash:
            yield f"the policy of {member.member} is not the one that was judged"
        for index, verdict in enumerate(member.judgement.verdicts):
            path = files.episode(member.member, index)
            if not verdict.recording or not is_unchanged(RecordedFile(path, verdict.recording)):
                yield f"episode {index} of {member.member} is not the one that was judged"
                break


def _of_trial(trial: Trial) -> Iterator[str]:
    if not trial.was_run:
        why = " ".join(dict.fromkeys((*trial.judge_problems, *trial.reward_problems)))
        yield f"judge and reward could not be tried on examples: {why or 'nobody knows why'}"
        return
    yield from trial.judge_problems
    if trial.judge_problems and trial.good is None:
        yield "with such a judge, nothing says whether the reward pays bad habits more"


def _changed_judge(
    work: SessionWork, written: Composition, trial: Trial, iteration: SessionIteration
) -> Iterator[str]:
    if iteration.judge_hash is None:
        yield f"which judge judged iteration {iteration.number} is not on record"
        return
    now = text_hash(read_text(work.folder.judge))
    used = {text_hash(written.judge), iteration.judge_hash, now}
    if trial.was_run and used != {trial.judge_hash}:
        yield "the judge was changed after its trial"


def _rewards(
    work: SessionWork,
    written: Composition,
    trial: Trial,
    iteration: SessionIteration,
    proving: Sequence[MemberScore],
) -> Iterator[str]:
    """Yield what is wrong with the rewards of the policies that prove it."""
    files = work.folder.iteration(iteration.number)
    candidate = read_record(files.candidate, RewardCandidate)
    for variant in dict.fromkeys(member.variant for member in proving):
        text = reward_text(candidate, variant)
        for member in (each for each in proving if each.variant == variant):
            on_disk = MemberFolder(files.run.path / member.member).reward_code
            now = text_hash(read_text(on_disk)) if on_disk.exists() else None
            used = iteration.reward_hashes.get(member.member)
            if used is None:
                yield f"which reward {member.member} was trained with is not on record"
            elif {now, used} != {text_hash(text)}:
                yield f"the reward of {member.member} was changed after it was proposed"
        if not trial.was_run:
            continue  # said already
        tried = trial
        if not _is_tried(written, candidate, text, trial):
            changes = {"reward": text, "env_args": candidate.env_args}
            tried = try_written(work.brief, written.model_copy(update=changes))
            write_json(files.certificate, tried)
            yield from () if tried.was_run else _of_trial(tried)
            yield from tried.judge_problems if tried.was_run else ()
        yield from tried.reward_problems


def _is_tried(written: Composition, candidate: RewardCandidate, text: str, trial: Trial) -> bool:
    """Say whether the first trial was of this very reward, in this very environment."""
    own = with_weights(written.reward, weights_in(written.reward))
    is_own = text_hash(written.reward) == trial.reward_hash and text in (own, written.reward)
    return is_own and candidate.env_args == trial.env_args


def _sticks(trial: Trial, proving: Sequence[MemberScore]) -> Iterator[str]:
    """Yield where real episodes were measured otherwise than the examples."""
    stick = trial.stick
    for member in proving if stick else ():
        for verdict in member.judgement.verdicts:
            # A judge that a package brings adds its own leaves behind these.
            if verdict.leaves and not same_stick(stick, verdict.leaves[: len(stick)]):
                yield "the judge measured the policies with another stick than the examples"
                return


# ----------------------------------------------------------------------------- the good example


def _episodes(
    work: SessionWork, iteration: SessionIteration, member: MemberScore
) -> list[_Episode]:
    """Return a poor, a median and a good one of the episodes that a policy passed on."""
    files = work.folder.iteration(iteration.number)
    candidate = read_record(files.candidate, RewardCandidate)
    where = (work.config.env, candidate.env_args)
    passed = [
        (verdict.score, index)
        for index, verdict in enumerate(member.judgement.verdicts)
        if verdict.score is not None and verdict.score >= work.config.threshold
    ]
    order = [index for _, index in sorted(passed)]
    chosen = {order[round(share * (len(order) - 1))] for share in (0.1, 0.5, 0.9)} if order else ()
    paths = {index: files.episode(member.member, index) for index in sorted(chosen)[:_WATCHED]}
    return [
        _Episode(read_trajectory(path, where), member.judgement.verdicts[index])
        for index, path in paths.items()
        if path.exists()
    ]


def _good(
    work: SessionWork,
    written: Composition,
    trial: Trial,
    iteration: SessionIteration,
    episodes: Sequence[_Episode],
    reference: Composition | None,
) -> tuple[str | None, tuple[str, ...]]:
    """Return who else says that the episodes are good ones, and what that narrows."""
    if trial.good is not None:
        return trial.good, ()
    if any(example.is_good for example in trial.examples):
        return None, ()  # there is one, and the judge does not know it
    if reference is not None and reference.judge != written.judge:
        scores = [verdict.score or 0.0 for verdict in _judged(work, iteration, reference, episodes)]
        if scores and float(np.mean(scores)) >= work.config.threshold:
            return "the composer's own reading of the words", ()
        return None, ()
    if _own_reward_agrees(trial, episodes):
        return "the environment's own reward", ()
    if reference is not None:
        return "the composer's measured criteria", (OWN_EXAMPLE,)
    return None, ()


def _reference(work: SessionWork, written: Composition) -> Composition | None:
    """Return what the composer makes of the words; None where it does not understand them all."""
    from telic.composer.compose import compose

    is_own = work.config.model is None
    try:
        criteria = written.criteria if is_own else None
        brief = work.brief
        made = compose(
            brief.config.intent, brief.spec, criteria, brief.reference if is_own else None
        )
    except TelicError:
        return None  # it says no: nobody else has read the words
    return None if made.not_understood and not is_own else made


def _own_reward_agrees(trial: Trial, episodes: Sequence[_Episode]) -> bool:
    """Say whether the environment itself pays these episodes clearly more than every bad habit."""
    paid = [
        example.own_return
        for example in bad_examples(trial.examples, trial.fine)
        if example.own_return is not None
    ]
    own = [float(np.sum(each.trajectory.columns["env_reward"])) for each in episodes]
    if not paid or not own or np.ptp(paid) <= 0.0:
        return False
    return min(own) > max(paid) + _CLEARLY * float(np.ptp(paid))


# -------------------------------------------------------------------------------------- mutants


def _mutants(
    work: SessionWork,
    written: Composition,
    iteration: SessionIteration,
    episodes: Sequence[_Episode],
) -> tuple[tuple[MutantCount, ...], list[str]]:
    """Let the judge see mutants; return what each criterion noticed, and mutants that pass."""
    spec = work.brief.spec
    families = [mutants_of(episode.trajectory, spec) for episode in episodes]
    mutants = [mutant for family in families for mutant in family.values()]
    try:
        verdicts = iter(
            _judged(work, iteration, written, [_Episode(each, _NOBODY) for each in mutants])
        )
    except Refused:
        return (), []
    seen = [{name: (each, next(verdicts)) for name, each in family.items()} for family in families]
    passing = [
        name
        for family in seen
        for name, (_, verdict) in family.items()
        if verdict.score is not None and verdict.score >= work.config.threshold
    ]
    originals = [(episode.trajectory, episode.verdict) for episode in episodes]
    return counts(written.criteria, originals, seen, spec), passing


_NOBODY = Verdict(source="code", score=None)


def _judged(
    work: SessionWork,
    iteration: SessionIteration,
    by: Composition,
    episodes: Sequence[_Episode],
) -> list[Verdict]:
    """Let a judge see episodes that are written for it, in a confined worker."""
    files = work.folder.iteration(iteration.number)
    candidate = read_record(files.candidate, RewardCandidate)
    folder = files.path / "mutants"
    paths: list[Path] = []
    for index, episode in enumerate(episodes):
        paths.append(folder / f"episode_{index:02d}.npz")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        write_trajectory(paths[-1], episode.trajectory)
    where = (work.config.env, candidate.env_args)
    return judge_files(by.judge, paths, folder / "judge", where)


def _may_freeze(
    work: SessionWork,
    written: Composition,
    iteration: SessionIteration,
    trial: Trial,
    episodes: Sequence[_Episode],
    reference: Composition | None,
) -> bool:
    """Say whether staying as it began is right here: a pole that starts upright is to be kept so.

    Either doing nothing is, or the composer, who has read every word, passes each frozen robot that
    the judge passes: one that began where it should get to may stay there.
    """
    if "does nothing" in trial.fine:
        return True
    if reference is None:
        return False
    mutants = [mutants_of(each.trajectory, work.brief.spec)[FROZEN] for each in episodes]
    frozen = [_Episode(each, _NOBODY) for each in mutants]
    ours, theirs = (_judged(work, iteration, by, frozen) for by in (written, reference))
    least = work.config.threshold
    return all(
        (their.score or 0.0) >= least
        for our, their in zip(ours, theirs, strict=True)
        if (our.score or 0.0) >= least
    )


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
