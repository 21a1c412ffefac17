"""The robustness card: the policy that passed, judged again under conditions it never trained in.

It is no part of the pass. A pass says what was asked and proven; the card says how far it carries:
pushes, half and one and a half times the friction, a fifth less and more mass, noise on what the
policy sees, actions that come one step late. The same judge, fresh starts, one batch of episodes
per condition, recorded like all evidence by a process that has never run the reward.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from itertools import islice
from typing import Literal, NamedTuple

from telic.authors.candidate import RewardCandidate
from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Listener, LogMessage
from telic.core.seeds import derive
from telic.envs import make
from telic.errors import TelicError
from telic.judges.disturbance import Disturbance
from telic.judges.recorder import PlayOrder, record
from telic.judges.verdict import Verdict
from telic.session.judgement import episode_paths, judge_episodes
from telic.session.records import SessionSummary
from telic.storage.files import once, read_record
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import read_text

EPISODES = 16
"""per condition"""
_NOT_HERE = "not possible here: the physics of this environment cannot be changed from outside"
_FOLDER = "robustness"


class RobustnessCondition(NamedTuple):
    """One row of the card: what differs, in words and in numbers."""

    name: str
    words: str
    disturbance: Disturbance


CONDITIONS = (
    RobustnessCondition("as trained", "nothing differs; other starts", Disturbance()),
    RobustnessCondition(
        "pushes", "a sudden horizontal velocity once a second", Disturbance(push=0.15)
    ),
    RobustnessCondition("friction x 0.5", "half the friction", Disturbance(friction=0.5)),
    RobustnessCondition(
        "friction x 1.5", "one and a half times the friction", Disturbance(friction=1.5)
    ),
    RobustnessCondition("mass - 20 %", "every body a fifth lighter", Disturbance(mass=0.8)),
    RobustnessCondition("mass + 20 %", "every body a fifth heavier", Disturbance(mass=1.2)),
    RobustnessCondition(
        "sensor noise", "5 % of what each observation varies by", Disturbance(noise=0.05)
    ),
    RobustnessCondition(
        "one step late", "actions come one control step late", Disturbance(delay=1)
    ),
)


class RobustnessRow(Record):
    """How a policy did under one condition; None: unknown."""

    condition: str
    words: str
    episodes: int = 0
    passing: int | None = None
    """episodes that reach the session's threshold"""
    score: float | None = None
    """mean over the episodes that could be judged"""
    reason: str | None = None
    """why there is no number"""


class RobustnessCard(Record):
    """A policy under conditions that it was not trained in, by the code judge alone."""

    schema_version: Literal[1] = 1
    iteration: int
    member: str
    step: int
    threshold: float
    seconds: float
    rows: tuple[RobustnessRow, ...]


def robustness_card(
    folder: SessionFolder, config: SessionConfig, summary: SessionSummary, tell: Listener
) -> RobustnessCard | None:
    """Return the card of the policy that a session hands out, made once; None: it has none.

    It never fails a session: what goes wrong is told, and there is no card.
    """
    passed = summary.outcome in ("passed", "passed_in_part", "unproven")
    if not config.robustness or not passed or summary.best_member is None:
        return None
    try:
        return once(folder.robustness, RobustnessCard, lambda: _measure(folder, config, summary))
    except (TelicError, OSError) as error:
        tell(LogMessage(message=f"no robustness card: {error}"))
        return None


def read_card(folder: SessionFolder) -> RobustnessCard | None:
    """Return the card of a session that has one."""
    return read_record(folder.robustness, RobustnessCard) if folder.robustness.exists() else None


def _measure(
    folder: SessionFolder, config: SessionConfig, summary: SessionSummary
) -> RobustnessCard:
    assert summary.best_iteration is not None and summary.best_member is not None
    began = time.monotonic()
    files = folder.iteration(summary.best_iteration)
    candidate = read_record(files.candidate, RewardCandidate)
    member = MemberFolder(files.run.path / summary.best_member)
    step = summary.best_step or member.checkpoints()[-1].step
    env = make(config.env, num_envs=1, **candidate.env_args)
    possible = [each for each in CONDITIONS if each.disturbance.is_possible(env)]
    env.close()
    place = folder.path / _FOLDER
    try:
        orders = [
            PlayOrder(
                policy=str(member.checkpoint(step).absolute()),
                env=config.env,
                env_args=candidate.judged_args,
                seed=derive("robustness", folder.name),
                paths=episode_paths(place / str(CONDITIONS.index(condition)), EPISODES),
                reward=read_text(member.reward_code),
                disturbance=condition.disturbance,
                is_kept=False,
            )
            for condition in possible
        ]
        paths = [file.path for own in record(orders, place) for file in own]
        where = (config.env, candidate.env_args)
        verdicts = iter(judge_episodes(folder, config, paths, place / "judge", where))
    finally:
        shutil.rmtree(place, ignore_errors=True)  # evidence of nothing that was claimed
    return RobustnessCard(
        iteration=summary.best_iteration,
        member=summary.best_member,
        step=step,
        threshold=config.threshold,
        seconds=time.monotonic() - began,
        rows=tuple(
            _row(each, list(islice(verdicts, EPISODES)), config.threshold)
            if each in possible
            else RobustnessRow(condition=each.name, words=each.words, reason=_NOT_HERE)
            for each in CONDITIONS
        ),
    )


def _row(
    condition: RobustnessCondition, verdicts: Sequence[Verdict], threshold: float
) -> RobustnessRow:
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    reasons = [verdict.reason for verdict in verdicts if verdict.score is None and verdict.reason]
    return RobustnessRow(
        condition=condition.name,
        words=condition.words,
        episodes=len(verdicts),
        passing=sum(score >= threshold for score in scores) if scores else None,
        score=sum(scores) / len(scores) if scores else None,
        reason=reasons[0] if reasons else None,
    )


def fragile(card: RobustnessCard) -> list[str]:
    """Return the conditions under which most episodes that pass otherwise fail, worst first."""
    usual = card.rows[0].passing
    lost = [
        (row.passing, row.condition)
        for row in card.rows[1:]
        if row.passing is not None and row.passing < (usual or row.episodes) / 2
    ]
    return [condition for _, condition in sorted(lost)]


def summary_line(card: RobustnessCard) -> str:
    """Summarize a card in one line."""
    failed = fragile(card)
    known = sum(row.passing is not None for row in card.rows[1:])
    if not known:
        return "unknown: no condition could be tried"
    passed = f"{known - len(failed)} of {known} conditions passed"
    return f"{passed} (failed: {', '.join(failed)})" if failed else passed
