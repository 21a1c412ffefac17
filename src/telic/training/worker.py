"""The confined side of training: probe the rewards, then train. Entry of the sandbox worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

# Everything heavy is imported here, before the process confines itself.
import torch

from telic.core.events import Event
from telic.rewards.contract import RewardSpec, TermSpec
from telic.rewards.probe import probe
from telic.rewards.reward import Reward
from telic.sandbox.tamper import Seal
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.training import loop
from telic.training.evaluate import Evaluator
from telic.training.job import TrainJob
from telic.training.record import Recorder
from telic.training.setup import build, load_rewards, make_env, make_scoring
from telic.training.summary import RunSummary, summarise

_START_S = 120.0
"""seconds without a sign of life that are normal while the set-up is built"""
_PROBE_S = 30.0
_STEP_S = 120.0
_PROBE_ENVS = 8


class Channel(Protocol):
    """What training needs of its connection to the host."""

    def send(self, message: dict[str, Any]) -> None:
        """Report an event."""
        ...

    def beat(self, seconds: float, doing: str = "") -> None:
        """Allow this long until the next sign of life; `doing` says in words what takes it."""
        ...

    def should_stop(self) -> bool:
        """Say whether the host asked to stop."""
        ...


def prepare(payload: dict[str, Any]) -> TrainJob:
    """Read the order; called before confinement."""
    return TrainJob.model_validate(payload["job"])


def run(job: TrainJob, payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Probe, train, summarise; called confined."""
    return train_job(job, RunFolder(Path(payload["run"])), channel).model_dump()


def train_job(job: TrainJob, folder: RunFolder, channel: Channel) -> RunSummary:
    """Do the whole job in this process."""
    channel.beat(_START_S)
    if job.device == "cpu":
        torch.set_num_threads(1)  # the other processors simulate meanwhile
    seal = Seal()  # before foreign code is loaded: what it replaces later is noticed
    rewards = load_rewards(job)
    probes = _probe_all(job, rewards, channel)
    channel.beat(_START_S)
    setup = build(job, rewards)
    evaluation_env = make_env(job, job.eval_episodes, Evaluator.seeds(job))
    evaluator = Evaluator(
        job,
        evaluation_env,
        make_scoring(job, evaluation_env, rewards),
        setup.population.networks,
    )

    doing = f"training on {', '.join(each.name for each in job.rewards)}"

    def emit(event: Event) -> None:
        if event["event"] == "eval.done":
            seal.check()
        channel.beat(_STEP_S, doing)
        channel.send(event)

    recorder = Recorder(job, folder, emit, setup)
    for member in job.members:
        spec = folder.member(member.config, member.seed).reward_spec
        write_json(spec, _complete_spec(rewards[member.reward]))

    def should_stop() -> bool:
        channel.beat(_STEP_S, doing)
        return channel.should_stop() or folder.stop.exists()

    try:
        finished = loop.train(setup, evaluator, recorder, should_stop)
        seal.check()
        summary = summarise(setup, recorder, finished, recorder.seconds, probes)
        recorder.emit("train.end", **summary.model_dump())
        return summary
    finally:
        recorder.close()
        setup.env.close()
        evaluation_env.close()


def _complete_spec(reward: Reward) -> RewardSpec:
    """Return the reward's description with every term it returned, declared or not."""
    declared = {each.name for each in reward.spec.terms}
    missing = tuple(
        TermSpec(name=name, weight=reward.weights.get(name))
        for name in reward.term_names
        if name not in declared
    )
    return reward.spec.model_copy(update={"terms": reward.spec.terms + missing})


def _probe_all(
    job: TrainJob, rewards: list[Reward], channel: Channel
) -> list[dict[str, Any] | None]:
    """Probe every reward on a small environment before anything else is built."""
    channel.beat(_PROBE_S)
    env = make_env(job, _PROBE_ENVS, [0])
    reports: list[dict[str, Any] | None] = []
    try:
        for source, reward in zip(job.rewards, rewards, strict=True):
            channel.beat(_PROBE_S, f"probing the reward {source.name}")
            report = probe(reward, env).model_dump(mode="json")
            channel.send({"event": "probe.done", "reward": source.name, **report})
            reports.append(report)
    finally:
        env.close()
    return reports
