"""Evaluate the robustness of a passing policy under conditions that were absent in training.

The evaluation does not affect the verdict. It covers pushes, changed friction and mass, observation
noise and action delay. For each condition, the session's judge scores one batch of episodes from
fresh initial states, recorded by a process that has never run the reward.
"""

from __future__ import annotations

import shutil
import time
from itertools import islice
from typing import Literal

from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Listener, LogMessage
from telic.core.seeds import derive
from telic.envs.factory import make
from telic.errors import TelicError
from telic.judges.disturbance import Disturbance
from telic.judges.recorder import record_each
from telic.session._judgment import best_policy, episode_paths, judge_episodes
from telic.session.records import SessionSummary
from telic.storage.files import once, read_record
from telic.storage.layout import SessionFolder

EPISODES = 16
"""number of episodes per condition"""
_FIXED = "not possible: the physics of this environment cannot be changed"
CONDITIONS: dict[str, tuple[str, Disturbance]] = {
    "as trained": ("no change; different initial states", Disturbance()),
    "pushes": ("a sudden horizontal velocity change once per second", Disturbance(push=0.15)),
    "friction x 0.5": ("half the friction", Disturbance(friction=0.5)),
    "friction x 1.5": ("one and a half times the friction", Disturbance(friction=1.5)),
    "mass - 20 %": ("mass of every body reduced by a fifth", Disturbance(mass=0.8)),
    "mass + 20 %": ("mass of every body increased by a fifth", Disturbance(mass=1.2)),
    "sensor noise": ("noise of 5 % of each observation's variation", Disturbance(noise=0.05)),
    "one-step action delay": ("actions are applied one control step late", Disturbance(delay=1)),
}
"""description and disturbance of each condition"""


class RobustnessRow(Record):
    """Results of a policy under one condition, where None means unknown."""

    condition: str
    words: str
    episodes: int = 0
    passing: int | None = None
    """number of episodes with a score at or above the session's threshold"""
    score: float | None = None
    """mean score over the judged episodes"""
    reason: str | None = None
    """why the results are unknown"""


class RobustnessCard(Record):
    """Scores of the code judge under conditions that were not used in training."""

    schema_version: Literal[1] = 1
    iteration: int
    member: str
    step: int
    threshold: float
    seconds: float
    rows: tuple[RobustnessRow, ...]


def robustness_card(
    folder: SessionFolder, config: SessionConfig, summary: SessionSummary, emit: Listener
) -> RobustnessCard | None:
    """Return the robustness card of the delivered policy, computed once, or None.

    If an error occurs, it is logged, the card is omitted, and the session continues.
    """
    passed = summary.outcome in ("passed", "passed_in_part", "unproven")
    if not config.robustness or not passed or summary.best_member is None:
        return None
    try:
        return once(folder.robustness, RobustnessCard, lambda: _measure(folder, config, summary))
    except (TelicError, OSError) as error:
        emit(LogMessage(message=f"no robustness card: {error}"))
        return None


def read_card(folder: SessionFolder) -> RobustnessCard | None:
    """Return the session's robustness card, or None if it has no card."""
    return read_record(folder.robustness, RobustnessCard) if folder.robustness.exists() else None


def _measure(
    folder: SessionFolder, config: SessionConfig, summary: SessionSummary
) -> RobustnessCard:
    began = time.monotonic()
    policy = best_policy(folder, summary)
    assert policy.step is not None  # a delivered policy was saved
    where = config.env, policy.candidate.env_args
    env = make(where[0], num_envs=1, **where[1])
    possible = [name for name, (_, what) in CONDITIONS.items() if what.is_possible(env)]
    env.close()
    place = folder.path / "robustness"
    try:
        orders = {
            name: policy.order(
                config,
                derive("robustness", folder.name),
                episode_paths(place / str(index), EPISODES),
                disturbance=disturbance,
                is_kept=False,
            )
            for index, (name, (_, disturbance)) in enumerate(CONDITIONS.items())
            if name in possible
        }
        played, why = record_each(orders, place)
        paths = [file.path for own in played.values() for file in own]
        verdicts = iter(judge_episodes(folder, config, paths, place / "judge", where))
    finally:
        shutil.rmtree(place, ignore_errors=True)  # not evidence for any claim
    rows: list[RobustnessRow] = []
    for name, (words, _) in CONDITIONS.items():
        if name not in played:
            rows.append(RobustnessRow(condition=name, words=words, reason=why.get(name, _FIXED)))
            continue
        own = list(islice(verdicts, EPISODES))
        scores = [verdict.score for verdict in own if verdict.score is not None]
        reasons = [verdict.reason for verdict in own if verdict.score is None and verdict.reason]
        rows.append(
            RobustnessRow(
                condition=name,
                words=words,
                episodes=len(own),
                passing=sum(score >= config.threshold for score in scores) if scores else None,
                score=sum(scores) / len(scores) if scores else None,
                reason=reasons[0] if reasons else None,
            )
        )
    return RobustnessCard(
        iteration=summary.best_iteration or 0,
        member=policy.member.name,
        step=policy.step,
        threshold=config.threshold,
        seconds=time.monotonic() - began,
        rows=tuple(rows),
    )


def summary_line(card: RobustnessCard) -> str:
    """Summarize a card in one line. If a condition halves the number of passes, it failed."""
    usual, known = card.rows[0].passing, [row for row in card.rows[1:] if row.passing is not None]
    lost = [
        (row.passing, row.condition)
        for row in known
        if row.passing is not None and row.passing < (usual or row.episodes) / 2
    ]
    if not known:
        return "unknown: no condition could be tested"
    passed = f"{len(known) - len(lost)} of {len(known)} conditions passed"
    failed = ", ".join(condition for _, condition in sorted(lost))
    return f"{passed} (failed: {failed})" if failed else passed
