"""Play fresh episodes, choose among trained policies, confirm the choice, and decide.

The best checkpoint of every policy, and the best policy, are chosen on one set of fresh episodes.
Whether a policy passes is confirmed on another set, which nothing was chosen on: by code, and by
eye where a model can see. What it proves holds together with everything else the session claims
(`telic.core.confidence`). Policies that are neither proven nor disproven play more episodes.

Initial states are drawn for every session, iteration and purpose. Episodes are recorded by a
process that has never run the candidate's code (`telic.judges.recorder`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate, Selection, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.confidence import ALPHA, fewest_scores, proves, spending
from telic.core.config import Record
from telic.core.seeds import derive
from telic.errors import TelicError
from telic.judges.code import judge_files, judge_too
from telic.judges.fusion import judge_doubted, unjudged
from telic.judges.recorder import PlayOrder, RecordedFile, is_unchanged, record_each
from telic.judges.verdict import PersonCalibration, Verdict, lowered, together, unknown
from telic.session.budget import iteration_steps, last_step
from telic.session.control import SessionWork
from telic.session.labels import calibration_of
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts, read_json_lines
from telic.storage.layout import Artifact, IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import file_hash, read_text
from telic.storage.trajectories import Environment
from telic.training.run import Run

Purpose = Literal["trial", "choose", "confirm"]
"""what episodes are for: which variant is trained further, which checkpoint and policy is best, and
whether that one passes"""
_FOLDERS: dict[Purpose, str] = {"trial": "trial_judged", "choose": "chosen", "confirm": "judged"}
CHOOSING = 16
"""fresh episodes on which checkpoints and policies are compared"""
LOOKS = 7
"""at policies before their training ends, at most"""
LONGEST = 4
"""how many times the usual number of episodes a policy plays that may yet prove itself"""


class Proof(Record):
    """Policies that passed before their training came to its end."""

    schema_version: int = 1
    step: int
    members: tuple[MemberScore, ...]
    judging_s: float


class TrainedCandidate(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None
    proof: Proof | None = None


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    files = work.folder.iteration(number)
    work.control.check()
    if trained.proof is not None:
        scores, seconds = list(trained.proof.members), trained.proof.judging_s
    else:
        scores, seconds = _judge_at_end(work, number, candidate, RunFolder(run.path))
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    iteration = decide(config, number, candidate, scores, run.summary["training_time_s"], seconds)
    verdicts = [verdict for score in scores for verdict in score.judgement.verdicts]
    changes: dict[str, object] = {
        "steps": iteration_steps(files),
        "unjudged": unjudged(verdicts),
        "judge_doubted": judge_doubted(verdicts),
    }
    if trials := trained.selection:
        changes["trials"] = trials.members
        changes["training_s"] = iteration.training_s + trials.training_s
        changes["judging_s"] = iteration.judging_s + trials.judging_s
    return iteration.model_copy(update=changes)


def decide(
    config: SessionConfig,
    number: int,
    candidate: RewardCandidate,
    scores: list[MemberScore],
    training_s: float,
    judging_s: float,
) -> SessionIteration:
    """Return what a candidate's policies prove together."""
    proving = sum(score.low >= config.threshold for score in scores)
    best = max(scores, key=lambda score: _standing(score, config.threshold))
    passed = proving >= config.needed
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=passed,
        score=mean_score(scores),
        variant=best.variant,
        best=best.member,
        tags=() if passed else _lacking(scores, config.threshold),
        members=tuple(scores),
        scores={score.member: score.judgement.score for score in scores},
        steps=sum(score.step for score in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def _lacking(scores: list[MemberScore], threshold: float) -> tuple[str, ...]:
    """Return what the best of those that do not pass lacks: who passes lacks nothing."""
    failing = [score for score in scores if score.low < threshold] or scores
    return max(failing, key=lambda score: _standing(score, threshold)).judgement.tags


def _standing(score: MemberScore, threshold: float) -> tuple[bool, float, float]:
    """Return what orders policies: those that pass first, then by the episodes for choosing."""
    chosen = score.low if score.choosing is None else score.choosing
    return score.low >= threshold, chosen, score.low


def looks_otherwise(passed: SessionIteration) -> tuple[str, ...]:
    """Say where most pictures show less than the judge's code measured, also at a closer look."""
    verdicts = [verdict for member in passed.members for verdict in member.judgement.verdicts]
    doubt = judge_doubted(verdicts, only_less=True)
    return () if doubt is None else (doubt,)


def too_few(config: SessionConfig, passed: SessionIteration) -> tuple[str, ...]:
    """Say where fewer trainings, each of its own seed, prove it than the request wants."""
    proving = [member for member in passed.members if member.low >= config.threshold]
    seeds = {member.seed for member in proving}.intersection(config.seeds)
    policies = {member.policy_hash for member in proving}
    if (found := min(len(seeds), len(policies))) >= config.needed:
        return ()
    wanted = f"{config.needed} of {len(config.seeds)} training seeds"
    return (f"{wanted} must prove {config.threshold:g}, and {found} of those judged do",)


def mean_score(scores: Sequence[MemberScore]) -> float | None:
    """Return the mean score of policies; None when none could be judged."""
    values = [score.judgement.score for score in scores if score.judgement.score is not None]
    return sum(values) / len(values) if values else None


def untrained(
    work: SessionWork, number: int, candidate: RewardCandidate, error: TelicError, seconds: float
) -> SessionIteration:
    """Return the iteration of a candidate whose training failed: nothing to judge, and why."""
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=False,
        score=None,
        variant=0,
        best=None,
        tags=(),
        members=(),
        steps=iteration_steps(work.folder.iteration(number)),
        training_s=seconds,
        judging_s=0.0,
        failure=str(error),
    )


# ------------------------------------------------------------------------------ choose and confirm


def _judge_at_end(
    work: SessionWork, number: int, candidate: RewardCandidate, run: RunFolder
) -> tuple[list[MemberScore], float]:
    """Choose the best checkpoint of every policy, and judge it; returns the seconds as well."""
    began = time.monotonic()
    last = newest(run)
    scores = choose(work, number, candidate, last)
    seen = _seen_before(work.folder.iteration(number))
    chosen: list[PolicyAt] = []
    worths: list[float | None] = []
    for policy, score in zip(last, scores, strict=True):
        step, worth = score.step, score.judgement.score
        for earlier, other in seen.get(score.member, {}).items():
            if other is not None and (worth is None or other > worth):
                step, worth = earlier, other
        saved = [each for each in policy.member.checkpoints() if each.step == step]
        chosen.append(PolicyAt(policy.member, saved[0]) if saved else policy)
        worths.append(worth)
    alpha = spending(number, len(chosen), LOOKS, is_last=True)
    scores = confirm(work, number, candidate, chosen, alpha)
    files = work.folder.iteration(number)
    scores = _failure_watched(work, files, [watched(work, files, score) for score in scores])
    people = calibration_of(work.folder, work.config.threshold)
    scores = [
        as_people_ask(score, people).model_copy(update={"choosing": worth})
        for score, worth in zip(scores, worths, strict=True)
    ]
    return scores, time.monotonic() - began


def _seen_before(files: IterationFolder) -> dict[str, dict[int, float | None]]:
    """Return the scores of earlier checkpoints on the episodes for choosing, by member and step."""
    seen: dict[str, dict[int, float | None]] = {}
    for row in read_json_lines(files.checkpoints):
        for member, score in row["scores"].items():
            seen.setdefault(member, {})[row["step"]] = score
    return seen


def choose(
    work: SessionWork, number: int, candidate: RewardCandidate, policies: Sequence[PolicyAt]
) -> list[MemberScore]:
    """Score policies on the episodes for choosing: the same for every checkpoint of a training."""
    verdicts = play(work, number, candidate, policies, "choose", CHOOSING)
    shutil.rmtree(work.folder.iteration(number).path / "chosen", ignore_errors=True)
    return [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]


def may_pass(config: SessionConfig, scores: Sequence[MemberScore], alpha: float) -> bool:
    """Say whether enough policies would prove themselves on more episodes of the same kind."""
    times = -(-judged_episodes(config, alpha) // CHOOSING)
    promising = sum(
        proves(_values(score.judgement.verdicts) * times, config.threshold, alpha)
        for score in scores
    )
    return promising >= config.needed


def confirm(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    policies: Sequence[PolicyAt],
    alpha: float,
    look: int = 0,
) -> list[MemberScore]:
    """Judge policies on episodes that nothing was chosen on.

    Whoever may yet prove the threshold plays more of them. The bound allows for that.

    Args:
        work: the session.
        number: of the iteration.
        candidate: what was trained.
        policies: whom to judge.
        alpha: the chance that a claim about one of them is wrong.
        look: which look it is, from 1; 0: the one at the end. Each has starts of its own.
    """
    config = work.config
    usual = judged_episodes(config, alpha)
    verdicts: list[list[Verdict]] = [[] for _ in policies]
    going_on = list(range(len(policies)))
    saved = [each.checkpoint for each in policies]
    hashes = [None if each is None else file_hash(each.path) for each in saved]
    while True:
        played = len(verdicts[going_on[0]])
        own = [policies[place] for place in going_on]
        more_of = play(
            work, number, candidate, own, "confirm", usual, moment=(look, played), first=played
        )
        for place, more in zip(going_on, more_of, strict=True):
            verdicts[place].extend(more)
        scores = [
            score_of(policy, own, alpha=alpha, threshold=config.threshold, policy_hash=digest)
            for policy, own, digest in zip(policies, verdicts, hashes, strict=True)
        ]
        going_on = _undecided(config, scores, going_on)
        if not going_on or played + 2 * usual > LONGEST * usual:
            return scores


def _undecided(
    config: SessionConfig, scores: Sequence[MemberScore], places: Sequence[int]
) -> list[int]:
    """Return who may yet prove the threshold, while that would make a difference."""
    proven = sum(score.low >= config.threshold for score in scores)
    open_ = [
        place
        for place in places
        if scores[place].low < config.threshold <= _mean(scores[place].judgement.verdicts)
    ]
    return open_ if proven < config.needed <= proven + len(open_) else []


def judged_episodes(config: SessionConfig, alpha: float) -> int:
    """Return on how many episodes a policy is judged: as asked, and enough to prove anything."""
    return max(config.episodes, fewest_scores(config.threshold, alpha))


def _values(verdicts: Sequence[Verdict]) -> list[float]:
    return [verdict.score or 0.0 for verdict in verdicts]


def _mean(verdicts: Sequence[Verdict]) -> float:
    """Return the mean score, with nothing for episodes that nobody could judge."""
    return sum(_values(verdicts)) / len(verdicts)


def watched(work: SessionWork, files: IterationFolder, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    return with_verdicts(score, work.author.watch(paths, verdicts), work.config.threshold)


def _failure_watched(
    work: SessionWork, files: IterationFolder, scores: list[MemberScore]
) -> list[MemberScore]:
    """Let the author's eyes look at one failure, where nothing passes by code.

    It is the middle episode of the best policy. Its score stays: a pass needs the code. Where the
    pictures contradict it, that is on record, and the judge can be doubted.
    """
    best = max(scores, key=lambda score: score.low, default=None)
    if best is None or best.judgement.score is None or best.low >= work.config.threshold:
        return scores
    verdicts, middle = list(best.judgement.verdicts), best.median_episode
    own = verdicts[middle]
    (seen,) = work.author.watch([files.episode(best.member, middle)], [own])
    kept = {name: getattr(seen, name) for name in ("seen", "spread", "by_judge", "disagreements")}
    verdicts[middle] = own.model_copy(update=kept)
    seen_too = with_verdicts(best, verdicts, work.config.threshold)
    return [seen_too if score is best else score for score in scores]


def as_people_ask(score: MemberScore, people: PersonCalibration) -> MemberScore:
    """Lower the scores of a judge whose bar lies too low by people's labels."""
    if not people.shift:
        return score
    return with_verdicts(score, lowered(score.judgement.verdicts, people), people.threshold)


def with_verdicts(score: MemberScore, verdicts: Sequence[Verdict], threshold: float) -> MemberScore:
    """Return a policy's score with other verdicts on the same episodes, as sure as before."""
    alpha = ALPHA if score.judgement.alpha is None else score.judgement.alpha
    judgement = together(verdicts, alpha=alpha, threshold=threshold)
    return score.model_copy(update={"judgement": judgement})


# ------------------------------------------------------------------------------ fresh episodes


class PolicyAt(NamedTuple):
    """A policy of a training, at one of its checkpoints."""

    member: MemberFolder
    checkpoint: Artifact | None
    """None: training broke off before there was one"""


def start_seed(work: SessionWork) -> int:
    """Return what a session's initial states are drawn from: as asked, else its own name."""
    asked = work.config.start_seed
    return derive("starts", work.folder.name) if asked is None else asked


def newest(run: RunFolder) -> list[PolicyAt]:
    """Return every policy of a training at its last checkpoint."""
    return [PolicyAt(each, next(reversed(each.checkpoints()), None)) for each in run.members()]


def newest_policy(member: MemberFolder) -> Path | None:
    """Return the latest policy; None when training broke off before there was one."""
    checkpoints = member.checkpoints()
    return checkpoints[-1].path if checkpoints else None


def play(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    policies: Sequence[PolicyAt],
    purpose: Purpose,
    episodes: int,
    moment: tuple[int, ...] = (),
    first: int = 0,
) -> list[list[Verdict]]:
    """Play fresh episodes with policies, and return the verdicts of the judge's code.

    Args:
        work: the session.
        number: of the iteration.
        candidate: what was trained.
        policies: which policies play.
        purpose: what the episodes are for.
        episodes: how many each policy plays.
        moment: keeps draws of one purpose and iteration apart.
        first: number of the first episode, in its file's name.
    """
    folder = work.folder.iteration(number).path / _FOLDERS[purpose]
    orders = {
        member.name: PlayOrder(
            policy=str(checkpoint.path.absolute()),
            env=work.config.env,
            env_args=candidate.judged_args,
            seed=derive(purpose, start_seed(work), number, *moment),
            paths=episode_paths(folder / member.name, episodes, first),
            reward=read_text(member.reward_code),
            is_kept=purpose != "choose",  # those are removed once they are judged
        )
        for member, checkpoint in policies
        if checkpoint
    }
    played, why = record_each(orders, folder)
    recorded = [file for own in played.values() for file in own]
    where = (work.config.env, candidate.env_args)
    # In a folder beside the episodes: a judge may write there, and not to what it judges.
    paths = [file.path for file in recorded]
    judged = judge_episodes(work.folder, work.config, paths, folder / "judge", where)
    verdicts = of_recordings(recorded, judged)
    return [
        [verdicts[file.path] for file in played[member.name]]
        if member.name in played
        else [_unplayed(member, why.get(member.name))] * episodes
        for member, _ in policies
    ]


def episode_paths(folder: Path, episodes: int, first: int = 0) -> tuple[str, ...]:
    """Return the files that fresh episodes are recorded to."""
    names = (f"episode_{index:02d}.npz" for index in range(first, first + episodes))
    return tuple(str((folder / name).absolute()) for name in names)


def judge_episodes(
    folder: SessionFolder,
    config: SessionConfig,
    paths: Sequence[Path],
    place: Path,
    where: Environment,
) -> list[Verdict]:
    """Return the verdicts of a session's code judge, and of the judge from a package if any."""
    verdicts = judge_files(read_text(folder.judge), paths, place, where)
    if config.judge is not None:
        verdicts = judge_too(config.judge, config.intent, paths, verdicts, where)
    return verdicts


def of_recordings(
    files: Sequence[RecordedFile], verdicts: Sequence[Verdict]
) -> dict[Path, Verdict]:
    """Return the verdicts by episode; unknown for one that is no longer what was recorded."""
    return {
        file.path: verdict.model_copy(update={"recording": file.sha256})
        if is_unchanged(file)
        else unknown("code", f"{file.path.name} is not what its recorder wrote")
        for file, verdict in zip(files, verdicts, strict=True)
    }


def score_of(
    policy: PolicyAt,
    verdicts: Sequence[Verdict],
    *,
    alpha: float = ALPHA,
    threshold: float | None = None,
    policy_hash: str | None = None,
) -> MemberScore:
    """Return what verdicts on a policy's episodes amount to."""
    member, checkpoint = policy
    config, _, seed = member.name.rpartition("_seed_")
    digits = config.removeprefix("reward")
    return MemberScore(
        member=member.name,
        variant=int(digits) - 1 if digits.isdigit() else 0,
        seed=int(seed),
        step=checkpoint.step if checkpoint else last_step(member.scalars),
        judgement=together(verdicts, alpha=alpha, threshold=threshold),
        policy_hash=policy_hash,
    )


def _unplayed(member: MemberFolder, why: str | None) -> Verdict:
    """Return the verdict on a policy that could not be recorded, or that training never saved."""
    if why is not None:
        return unknown("code", f"no episode could be recorded. {why}")
    reasons: list[str] = []
    if member.summary.exists():
        found = read_facts(member.summary, MemberResultFacts).get("findings", [])
        reasons = [finding["message"] for finding in found]
    return unknown("code", f"there is no policy. {reasons[-1] if reasons else ''}")
