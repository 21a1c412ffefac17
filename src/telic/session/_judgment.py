"""Evaluate trained policies on fresh episodes, first to select checkpoints, then to confirm them.

The best checkpoint of every policy, and the best policy, are selected on one set of fresh episodes.
A pass is confirmed on a second, held-out set by code, and by a vision model if there is one. The
confidence bounds hold simultaneously for all claims of a session (`telic.core.confidence`).
Policies that are neither proven nor disproven play more episodes.

Initial states are drawn separately for every session, iteration and purpose. Episodes are recorded
by a process that has never run the candidate's code (`telic.judges.recorder`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate, Selection, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.confidence import ALPHA, fewest_scores, proves, spending
from telic.core.config import Record
from telic.core.seeds import derive
from telic.errors import TelicError
from telic.judges.code import judge_files, judge_too
from telic.judges.fusion import judge_doubted, unjudged
from telic.judges.recorder import RecordedFile, RolloutSpec, is_unchanged, record_each
from telic.judges.verdict import Verdict, lowered, together, unknown
from telic.session.budget import iteration_steps, last_row_step
from telic.session.control import SessionWork
from telic.session.labels import calibration_of
from telic.session.records import SessionSummary
from telic.storage.files import read_json_lines, read_record
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import file_hash, read_text
from telic.storage.scalars import read_findings
from telic.storage.trajectories import Environment
from telic.training.run import Run

Purpose = Literal["trial", "choose", "confirm"]
"""purpose of fresh episodes: screen variants, select a checkpoint and policy, or confirm a pass"""
_FOLDERS: dict[Purpose, str] = {"trial": "trial_judged", "choose": "chosen", "confirm": "judged"}
CHOOSING = 16
"""number of fresh episodes used to compare checkpoints and policies"""
INTERIM_EVALUATIONS = 7
"""maximum number of interim evaluations during training"""
MAX_TIMES = 4
"""maximum number of episodes for an undecided policy, as a multiple of the usual number"""
_MARGIN = 0.25
"""part of the distance from the threshold to 1 that a vision model may take from a bound"""


class Proof(Record):
    """Policies that were proven to pass before the end of training."""

    schema_version: int = 1
    step: int
    members: tuple[MemberScore, ...]
    judging_s: float


class TrainedCandidate(NamedTuple):
    """Reward candidate with its trained policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None
    proof: Proof | None = None


class TrainedPolicy(NamedTuple):
    """Policy at one of its checkpoints, with the candidate for which it was trained."""

    candidate: RewardCandidate
    member: MemberFolder
    step: int | None
    """step of the checkpoint, or None if training ended before the first one"""

    def order(
        self, config: SessionConfig, seed: int, paths: Sequence[str], **more: Any
    ) -> RolloutSpec:
        """Return a request to record fresh episodes under the conditions used for judging."""
        assert self.step is not None
        code = self.member.reward_code
        usual = RolloutSpec(
            policy=str(self.member.checkpoint(self.step).absolute()),
            env=config.env,
            env_args=self.candidate.judged_args,
            seed=seed,
            paths=tuple(paths),
            reward=read_text(code) if code.exists() else None,
        )
        return usual.model_copy(update=more)


def best_policy(folder: SessionFolder, summary: SessionSummary) -> TrainedPolicy:
    """Return the policy that a session delivers."""
    assert summary.best_iteration is not None and summary.best_member is not None
    files = folder.iteration(summary.best_iteration)
    member = MemberFolder(files.run.path / summary.best_member)
    step = summary.best_step or member.checkpoints()[-1].step
    return TrainedPolicy(read_record(files.candidate, RewardCandidate), member, step)


def newest(candidate: RewardCandidate, run: RunFolder) -> list[TrainedPolicy]:
    """Return all policies of a training run at their last checkpoints."""
    saved = [(each, each.checkpoints()) for each in run.members()]
    return [TrainedPolicy(candidate, each, own[-1].step if own else None) for each, own in saved]


# ------------------------------------------------------------------------------ verdict


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and decide whether they pass."""
    candidate, run, screening = trained.candidate, trained.run, trained.selection
    work.control.check()
    if trained.proof is not None:
        scores, seconds = list(trained.proof.members), trained.proof.judging_s
    else:
        began = time.monotonic()
        scores = _judge_at_end(work, number, candidate, RunFolder(run.path))
        seconds = time.monotonic() - began
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    verdicts = [verdict for score in scores for verdict in score.judgment.verdicts]
    return verdict_on(work.config, number, candidate, scores).model_copy(
        update={
            "steps": iteration_steps(work.folder.iteration(number)),
            "unjudged": unjudged(verdicts),
            "judge_doubted": judge_doubted(verdicts),
            "trials": screening.members if screening else (),
            "training_s": run.summary["training_time_s"]
            + (screening.training_s if screening else 0.0),
            "judging_s": seconds + (screening.judging_s if screening else 0.0),
        }
    )


def _judge_at_end(
    work: SessionWork, number: int, candidate: RewardCandidate, run: RunFolder
) -> list[MemberScore]:
    """Select the best checkpoint of every policy and judge the selected policies."""
    files, last = work.folder.iteration(number), newest(candidate, run)
    interim = list(read_json_lines(files.checkpoints))
    chosen: list[TrainedPolicy] = []
    worths: list[float | None] = []
    for policy, score in zip(last, choose_policies(work, number, last), strict=True):
        step, worth = score.step, score.judgment.score
        for row in interim:
            other = row["scores"].get(score.member)
            if other is not None and (worth is None or other > worth):
                step, worth = row["step"], other
        is_saved = policy.member.checkpoint(step).exists()
        chosen.append(policy._replace(step=step) if is_saved else policy)
        worths.append(worth)
    alpha = spending(number, len(chosen), INTERIM_EVALUATIONS, is_last=True)
    scores = confirm(work, number, chosen, alpha)
    scores = [watched(work, files, score) for score in scores]
    watch_failure(work, files, scores)
    return [
        by_labels(work, score).model_copy(update={"choosing": worth})
        for score, worth in zip(scores, worths, strict=True)
    ]


def verdict_on(
    config: SessionConfig, number: int, candidate: RewardCandidate, scores: list[MemberScore]
) -> SessionIteration:
    """Return the verdict on a candidate based on its policies' scores, ignoring times and costs."""

    def standing(score: MemberScore) -> tuple[bool, float, float]:
        """Return a sort key that ranks passing policies first, then by score."""
        chosen = score.low if score.choosing is None else score.choosing
        return score.low >= config.threshold, chosen, score.low

    best = max(scores, key=standing, default=None)
    failing = [score for score in scores if score.low < config.threshold]
    passed = len(scores) - len(failing) >= config.needed
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=passed,
        score=mean_score(scores),
        variant=0 if best is None else best.variant,
        best=None if best is None else best.member,
        tags=() if passed or not scores else max(failing or scores, key=standing).judgment.tags,
        members=tuple(scores),
        scores={score.member: score.judgment.score for score in scores},
        steps=sum(score.step for score in scores),
        training_s=0.0,
        judging_s=0.0,
    )


def untrained(
    work: SessionWork, number: int, candidate: RewardCandidate, error: TelicError, seconds: float
) -> SessionIteration:
    """Return the iteration record of a candidate whose training failed."""
    steps = iteration_steps(work.folder.iteration(number))
    changes = {"steps": steps, "training_s": seconds, "failure": str(error)}
    return verdict_on(work.config, number, candidate, []).model_copy(update=changes)


def doubts_of_pass(config: SessionConfig, passed: SessionIteration) -> tuple[str, ...]:
    """Return the reasons why the scores of a passing iteration do not prove a pass.

    Either too few training seeds reach the threshold, or most renderings contradict the code.
    """
    proving = [member for member in passed.members if member.low >= config.threshold]
    seeds = {member.seed for member in proving}.intersection(config.seeds)
    found = min(len(seeds), len({member.policy_hash for member in proving}))
    doubts: list[str] = []
    if found < config.needed:
        wanted = f"{config.needed} of {len(config.seeds)} training seeds"
        doubts.append(f"{wanted} must prove {config.threshold:g}, but only {found} of those do")
    verdicts = [verdict for member in passed.members for verdict in member.judgment.verdicts]
    seen = judge_doubted(verdicts, only_less=True)
    return (*doubts, *([seen] if seen else []))


def mean_score(scores: Sequence[MemberScore]) -> float | None:
    """Return the mean score of all policies, or None if none could be judged."""
    values = [score.judgment.score for score in scores if score.judgment.score is not None]
    return sum(values) / len(values) if values else None


# ------------------------------------------------------------------------------ selection


def choose_policies(
    work: SessionWork, number: int, policies: Sequence[TrainedPolicy]
) -> list[MemberScore]:
    """Score policies on the selection episodes (the same for all checkpoints of a run)."""
    verdicts = play_out(work, number, policies, "choose", CHOOSING)
    shutil.rmtree(work.folder.iteration(number).path / "chosen", ignore_errors=True)
    return [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]


def may_pass(config: SessionConfig, scores: Sequence[MemberScore], alpha: float) -> bool:
    """Return whether enough policies would pass if all further episodes had the same scores."""
    times = MAX_TIMES * judged_episodes(config, alpha) // CHOOSING
    promising = sum(
        proves(_values(score.judgment.verdicts) * times, config.threshold, alpha)
        for score in scores
    )
    return promising >= config.needed


def confirm(
    work: SessionWork,
    number: int,
    policies: Sequence[TrainedPolicy],
    alpha: float,
    look: int = 0,
) -> list[MemberScore]:
    """Judge policies on held-out episodes that were not used for selection.

    A policy that may still prove the threshold plays more episodes, and the bound accounts for
    this. Its bound should exceed the threshold by a margin, as a vision model may lower the scores.
    `look` is the number of the interim evaluation (0: the final one). Seeds are distinct.
    """
    config, usual = work.config, judged_episodes(work.config, alpha)
    margin = _MARGIN * (1.0 - config.threshold) if config.model and config.vision else 0.0
    verdicts: list[list[Verdict]] = [[] for _ in policies]
    undecided = list(range(len(policies)))
    hashes = [
        None if each.step is None else file_hash(each.member.checkpoint(each.step))
        for each in policies
    ]
    while True:
        played = len(verdicts[undecided[0]])
        own = [policies[place] for place in undecided]
        more_of = play_out(work, number, own, "confirm", usual, moment=(look, played), first=played)
        for place, more in zip(undecided, more_of, strict=True):
            verdicts[place].extend(more)
        scores = [
            score_of(policy, own, alpha=alpha, threshold=config.threshold, policy_hash=digest)
            for policy, own, digest in zip(policies, verdicts, hashes, strict=True)
        ]
        # Play more episodes only while they can change the outcome.
        proven = sum(score.low >= config.threshold + margin for score in scores)
        undecided = [
            place
            for place in undecided
            if scores[place].low < config.threshold + margin
            and sum(_values(verdicts[place])) / len(verdicts[place]) >= config.threshold
        ]
        can_pass = proven < config.needed <= proven + len(undecided)
        if not can_pass or played + 2 * usual > MAX_TIMES * usual:
            return scores


def judged_episodes(config: SessionConfig, alpha: float) -> int:
    """Return the requested number of judged episodes, or more if a proof requires more."""
    return max(config.episodes, fewest_scores(config.threshold, alpha))


def _values(verdicts: Sequence[Verdict]) -> list[float]:
    return [verdict.score or 0.0 for verdict in verdicts]


def watched(work: SessionWork, files: IterationFolder, score: MemberScore) -> MemberScore:
    """Evaluate a policy that passes the code judge with the author's vision model."""
    if score.low < work.config.threshold:
        return score
    verdicts = list(score.judgment.verdicts)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    return with_verdicts(score, work.author.watch(paths, verdicts), work.config.threshold)


def watch_failure(work: SessionWork, files: IterationFolder, scores: list[MemberScore]) -> None:
    """Run the vision model on the median episode of the best policy if no policy passes.

    The score does not change, because only code can pass a policy. A contradiction is a doubt.
    """
    best, threshold = max(scores, key=lambda score: score.low, default=None), work.config.threshold
    if best is None or best.judgment.score is None or best.low >= threshold:
        return
    verdicts, middle = list(best.judgment.verdicts), best.median_episode
    (seen,) = work.author.watch([files.episode(best.member, middle)], [verdicts[middle]])
    kept = ("seen", "spread", "by_judge", "disagreements")
    changes = {name: getattr(seen, name) for name in kept}
    verdicts[middle] = verdicts[middle].model_copy(update=changes)
    scores[scores.index(best)] = with_verdicts(best, verdicts, threshold)


def by_labels(work: SessionWork, score: MemberScore) -> MemberScore:
    """Lower the scores of a judge that is more lenient than human labels."""
    people = calibration_of(work.folder, work.config.threshold)
    if not people.shift:
        return score
    return with_verdicts(score, lowered(score.judgment.verdicts, people), people.threshold)


def with_verdicts(score: MemberScore, verdicts: Sequence[Verdict], threshold: float) -> MemberScore:
    """Return a policy's score with replaced verdicts, at an unchanged confidence level."""
    alpha = ALPHA if score.judgment.alpha is None else score.judgment.alpha
    judgment = together(verdicts, alpha=alpha, threshold=threshold)
    return score.model_copy(update={"judgment": judgment})


# ------------------------------------------------------------------------------ fresh episodes


def start_seed(work: SessionWork) -> int:
    """Return the seed for the initial states: the requested one, or one derived from the name."""
    asked = work.config.start_seed
    return derive("starts", work.folder.name) if asked is None else asked


def play_out(
    work: SessionWork,
    number: int,
    policies: Sequence[TrainedPolicy],
    purpose: Purpose,
    episodes: int,
    moment: tuple[int, ...] = (),
    first: int = 0,
) -> list[list[Verdict]]:
    """Record fresh episodes of policies and return the verdicts of the code judge.

    `moment` distinguishes draws for the same purpose and iteration. `first` is the number of the
    first file.
    """
    folder = work.folder.iteration(number).path / _FOLDERS[purpose]
    orders = {
        policy.member.name: policy.order(
            work.config,
            derive(purpose, start_seed(work), number, *moment),
            episode_paths(folder / policy.member.name, episodes, first),
            is_kept=purpose != "choose",  # deleted after judging
        )
        for policy in policies
        if policy.step is not None
    }
    played, why = record_each(orders, folder)
    recorded = [file for own in played.values() for file in own]
    where = (work.config.env, policies[0].candidate.env_args)
    # Use a separate folder: a judge may write there, but not to the recordings it judges.
    paths = [file.path for file in recorded]
    judged = judge_episodes(work.folder, work.config, paths, folder / "judge", where)
    verdicts = {
        file.path: of_recording(file, verdict)
        for file, verdict in zip(recorded, judged, strict=True)
    }
    found: list[list[Verdict]] = []
    for _, member, _ in policies:
        if member.name in played:
            found.append([verdicts[file.path] for file in played[member.name]])
            continue
        reason = f"no episode could be recorded. {why.get(member.name)}"
        if member.name not in why:  # training saved no checkpoint
            findings = read_findings(member.summary)
            reason = f"no policy was saved. {findings[-1]['message'] if findings else ''}"
        found.append([unknown("code", reason)] * episodes)
    return found


def episode_paths(folder: Path, episodes: int, first: int = 0) -> tuple[str, ...]:
    """Return the paths to which fresh episodes are recorded."""
    names = (f"episode_{index:02d}.npz" for index in range(first, first + episodes))
    return tuple(str((folder / name).absolute()) for name in names)


def judge_episodes(
    folder: SessionFolder,
    config: SessionConfig,
    paths: Sequence[Path],
    place: Path,
    where: Environment,
) -> list[Verdict]:
    """Return the verdicts of a session's code judge and, if configured, of a plugin judge."""
    verdicts = judge_files(read_text(folder.judge), paths, place, where)
    if config.judge is not None:
        verdicts = judge_too(config.judge, config.intent, paths, verdicts, where)
    return verdicts


def of_recording(file: RecordedFile, verdict: Verdict) -> Verdict:
    """Return the verdict on a recording. If the file was changed, the verdict is unknown."""
    if is_unchanged(file):
        return verdict.model_copy(update={"recording": file.sha256})
    return unknown("code", f"{file.path.name} was modified after it was recorded")


def score_of(
    policy: TrainedPolicy,
    verdicts: Sequence[Verdict],
    *,
    alpha: float = ALPHA,
    threshold: float | None = None,
    policy_hash: str | None = None,
) -> MemberScore:
    """Return the score of a policy, computed from the verdicts on its episodes."""
    _, member, step = policy
    config, _, seed = member.name.rpartition("_seed_")
    digits = config.removeprefix("reward")
    return MemberScore(
        member=member.name,
        variant=int(digits) - 1 if digits.isdigit() else 0,
        seed=int(seed),
        step=last_row_step(member.scalars) if step is None else step,
        judgment=together(verdicts, alpha=alpha, threshold=threshold),
        policy_hash=policy_hash,
    )
