"""Fresh episodes: policies played from starts that nobody used before, and scored by the judge.

Starts are drawn anew for every session and iteration, and for every purpose: which variant, policy
or checkpoint is best is decided on some, whether it passes is confirmed on others. Episodes are
recorded by a process that has never run the candidate's code (`telic.judges.recorder`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate
from telic.core.confidence import ALPHA
from telic.core.seeds import derive
from telic.judges.code import judge_files, judge_too
from telic.judges.recorder import PlayOrder, RecordedFile, is_unchanged, record_each
from telic.judges.verdict import Verdict, together, unknown
from telic.session.budget import last_step
from telic.session.control import SessionWork
from telic.session.records import SessionConfig
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts
from telic.storage.layout import Artifact, MemberFolder, RunFolder
from telic.storage.reading import read_text
from telic.training.run import Run

Purpose = Literal["trial", "choose", "confirm"]
TRIAL: Purpose = "trial"
CHOOSE: Purpose = "choose"
CONFIRM: Purpose = "confirm"
"""what episodes are for: which variant is trained on, which checkpoint and policy is best, and
whether that one passes"""
_FOLDERS: dict[Purpose, str] = {TRIAL: "trial_judged", CHOOSE: "chosen", CONFIRM: "judged"}


class PolicyAt(NamedTuple):
    """A policy of a training, at one of its checkpoints."""

    member: MemberFolder
    checkpoint: Artifact | None
    """None: training broke off before there was one"""


class FreshStarts(NamedTuple):
    """Which episodes to play."""

    purpose: Purpose
    episodes: int
    moment: tuple[int, ...] = ()
    """keeps draws of one purpose and iteration apart: which look, how many were played"""
    first: int = 0
    """number of the first episode, in its file's name"""


def start_seed(work: SessionWork) -> int:
    """Return what a session's starts are drawn from: as asked, else its own name."""
    asked = work.config.start_seed
    return derive("starts", work.folder.name) if asked is None else asked


def newest(run: RunFolder) -> list[PolicyAt]:
    """Return every policy of a training as it was saved last."""
    return [
        PolicyAt(member, checkpoints[-1] if (checkpoints := member.checkpoints()) else None)
        for member in run.members()
    ]


def newest_policy(member: MemberFolder) -> Path | None:
    """Return the latest policy; None when training broke off before there was one."""
    checkpoints = member.checkpoints()
    return checkpoints[-1].path if checkpoints else None


def judge_policies(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    run: Run,
    episodes: int,
    purpose: Purpose,
    place: int = 1,
) -> tuple[list[MemberScore], float]:
    """Judge the newest policies of a run; returns the scores and the seconds it took.

    What is judged for one purpose in several places is judged on starts of its own in each.
    """
    began = time.monotonic()
    policies = newest(RunFolder(run.path))
    starts = FreshStarts(purpose, episodes, (place,) if place > 1 else ())
    verdicts = play(work, number, candidate, policies, starts)
    scores = [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]
    return scores, time.monotonic() - began


def play(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    policies: Sequence[PolicyAt],
    starts: FreshStarts,
) -> list[list[Verdict]]:
    """Play fresh episodes with policies, and return what the judge's code says of each."""
    folder = work.folder.iteration(number).path / _FOLDERS[starts.purpose]
    seed = derive(starts.purpose, start_seed(work), number, *starts.moment)
    orders: dict[str, PlayOrder] = {}
    for member, checkpoint in policies:
        if checkpoint:
            names = range(starts.first, starts.first + starts.episodes)
            own = [folder / member.name / f"episode_{index:02d}.npz" for index in names]
            reward = read_text(member.reward_code)
            order = play_order(
                checkpoint.path, reward, work.config, candidate.judged_args, own, seed
            )
            # Those for choosing are removed once they are judged (`telic.session.judgement`).
            is_kept = starts.purpose != CHOOSE
            orders[member.name] = order.model_copy(update={"is_kept": is_kept})
    played, why = record_each(orders, folder)
    recorded = [file for own in played.values() for file in own]
    paths = [file.path for file in recorded]
    where = (work.config.env, candidate.env_args)
    # In a folder beside the episodes: a judge may write there, and not to what it judges.
    judged = judge_files(read_text(work.folder.judge), paths, folder / "judge", where)
    if work.config.judge is not None:
        judged = judge_too(work.config.judge, work.config.intent, paths, judged, where)
    verdicts = of_recordings(recorded, judged)
    return [
        [verdicts[file.path] for file in played[member.name]]
        if member.name in played
        else [_unplayed(member, why.get(member.name))] * starts.episodes
        for member, _ in policies
    ]


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


def play_order(
    policy: Path,
    reward: str,
    config: SessionConfig,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    seed: int = 0,
) -> PlayOrder:
    """Order fresh episodes of a policy, one per path; `seed` decides where they start."""
    return PlayOrder(
        policy=str(policy.absolute()),
        env=config.env,
        env_args=env_args,
        seed=seed,
        paths=tuple(str(path.absolute()) for path in paths),
        reward=reward,
    )
