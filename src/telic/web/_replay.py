"""Replay a recorded episode to compute its criteria and reward terms over time.

The judge scores each prefix of the episode as if it were a complete episode. The reward is
evaluated on the recorded transitions. Both are untrusted code, which `replay` runs in a confined
worker with the entry point `run`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.core.tensors import norm, use_one_thread
from telic.envs.factory import make
from telic.envs.vector import Info
from telic.errors import TelicError
from telic.judges.code import JudgeCode
from telic.judges.episode import recorded_together
from telic.rewards.confined import run_confined
from telic.rewards.recording import Transition, TransitionRecording
from telic.rewards.reward import load_reward
from telic.storage.trajectories import Environment, Trajectory, read_trajectory

_MOMENTS = 24
_TIMEOUT_S = 60.0
_DECIDED_ON = 32
"""number of transitions used to select the reward's evaluation method"""


class CriterionTimeline(Record):
    """Scores of a criterion over the course of an episode."""

    title: str = Field(max_length=500)
    passed: bool
    """at the end"""
    credits: tuple[float | None, ...] = Field(max_length=_MOMENTS + 1)
    """fraction earned if the episode ended here, or None if it was not judged"""


class TimelineMark(Record):
    """A time at which a criterion becomes met or unmet."""

    time_s: float
    title: str
    kind: Literal["met", "lost", "missed"]
    """missed means that it was never met, and is marked at the end of the episode"""


class Timeline(Record):
    """Criteria and reward terms of an episode over time."""

    times: tuple[float, ...] = Field(max_length=_MOMENTS + 1)
    criteria: tuple[CriterionTimeline, ...] = Field(default=(), max_length=200)
    marks: tuple[TimelineMark, ...] = ()
    reward_terms: dict[str, tuple[float, ...]] = Field(default={}, max_length=200)
    """one value per step"""
    missing: tuple[str, ...] = Field(default=(), max_length=4)
    """reasons why criteria or terms are not available"""


def replay(path: Path, judge: str | None, reward: str | None, where: Environment) -> Timeline:
    """Return the criteria and reward terms of a recorded episode over time, with all changes."""
    with tempfile.TemporaryDirectory(prefix="telic-replay-") as folder:
        payload = {"path": str(path.absolute()), "judge": judge, "reward": reward, "where": where}
        entry, readable = "telic.web._replay", [path.absolute().parent]
        answer = run_confined(entry, payload, Path(folder), [where], readable)
    course = Timeline.model_validate({**answer, "marks": ()})
    marks = [mark for each in course.criteria for mark in _marks(each, course.times)]
    marks.sort(key=lambda mark: mark.time_s)
    return course.model_copy(update={"marks": tuple(marks)})


def _marks(course: CriterionTimeline, times: tuple[float, ...]) -> list[TimelineMark]:
    """Return the times at which a criterion changes between met and unmet."""
    marks, was_met = list[TimelineMark](), None
    for time_s, credit in zip(times, course.credits, strict=True):
        is_met = credit is not None and credit >= 1.0
        if was_met is not None and is_met != was_met:
            kind = "met" if is_met else "lost"
            marks.append(TimelineMark(time_s=time_s, title=course.title, kind=kind))
        was_met = is_met
    if not course.passed and not any(mark.kind == "lost" for mark in marks):
        marks.append(TimelineMark(time_s=times[-1], title=course.title, kind="missed"))
    return marks


# ---- in the worker


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Compute criteria and reward terms over time. The sandboxed worker runs this function."""
    use_one_thread()
    channel.heartbeat(_TIMEOUT_S, "replaying an episode")
    where: Environment = (payload["where"][0], payload["where"][1])
    trajectory = read_trajectory(Path(payload["path"]), where)
    dt = trajectory.facts.dt_s or 0.05
    lengths = np.unique(np.linspace(1, len(trajectory), _MOMENTS + 1).round().astype(int)).tolist()
    answer: dict[str, Any] = {"times": [length * dt for length in lengths], "missing": []}
    for name, source, measure in (
        ("criteria", payload["judge"], _criteria),
        ("reward_terms", payload["reward"], _terms),
    ):
        try:
            answer[name] = measure(source, trajectory, where, lengths) if source else []
        except (TelicError, KeyError, ValueError, RuntimeError) as error:
            answer["missing"].append(f"{name.replace('_', ' ')}: {error}"[:300])
        channel.heartbeat(_TIMEOUT_S, "replaying an episode")
    return answer if answer.get("reward_terms") else {**answer, "reward_terms": {}}


def _criteria(
    source: str, trajectory: Trajectory, where: Environment, lengths: list[int]
) -> list[dict[str, Any]]:
    """Return the scores of all criteria for prefixes of the episode and for the whole episode."""
    env = make(where[0], num_envs=1, **where[1])
    env.close()
    parts = [
        Trajectory({name: x[:length] for name, x in trajectory.columns.items()}, trajectory.facts)
        for length in lengths
    ]
    full = [length * (env.spec.dt_s or 1.0) for length in lengths[:-1]]
    episodes = recorded_together(parts, env.spec, [*full, None])
    verdicts = [JudgeCode(source).judge(episode) for episode in episodes]
    if verdicts[-1].score is None:
        raise ValueError(verdicts[-1].reason)
    scores = [{each.title: each.counted for each in verdict.criteria} for verdict in verdicts]
    return [
        {"title": x.title, "passed": x.passed, "credits": [own.get(x.title) for own in scores]}
        for x in verdicts[-1].criteria
    ]


def _terms(
    source: str, trajectory: Trajectory, where: Environment, lengths: list[int]
) -> dict[str, list[float]]:
    """Return every reward term at every recorded step."""
    env = make(where[0], num_envs=1, **where[1])
    env.reset()
    schema = env.step(torch.as_tensor(np.array(trajectory["action"][:1]))).info.schema
    env.close()
    columns = {name: torch.as_tensor(np.array(x)) for name, x in trajectory.columns.items()}
    if "cfrc_ext" in columns:
        columns["contacts"] = norm(columns["cfrc_ext"][:, :, 3:])
    steps = torch.arange(len(trajectory))
    columns |= {"episode_start": steps == 0, "dt": torch.full((len(steps),), env.spec.dt_s or 1.0)}
    meanings = {name: text for name, text in schema.meanings.items() if name in columns}
    schema, moments = replace(schema, meanings=meanings), list[Transition]()
    for t in range(len(trajectory)):
        row = {name: column[t : t + 1] for name, column in columns.items()}
        exact = {name: x.double() if x.is_floating_point() else x for name, x in row.items()}
        own, info = row.get("env_reward", torch.zeros(1)), Info.of(exact, schema)
        ended = steps[t : t + 1] == len(steps) - 1
        moments.append(Transition(row["obs"], row["action"], row["next_obs"], info, ended, own))
    reward = load_reward(source, label="reward_fn.py")
    reward.decide(TransitionRecording(moments[:_DECIDED_ON]))
    reward.start(1, "cpu")
    terms: dict[str, list[float]] = {}
    for moment in moments:
        paid = reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        for name, value in (paid.terms or {"reward": paid.total}).items():
            terms.setdefault(name, []).append(float(value))
    return terms
