"""The confined side of training: probe the rewards, then train. Entry of the sandbox worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

# Everything heavy is imported here, before the process confines itself.
import torch

from telic.core.events import Event
from telic.rewards.probe import probe
from telic.storage.layout import RunFolder
from telic.training import loop
from telic.training.evaluate import Evaluator
from telic.training.job import TrainJob
from telic.training.record import Recorder
from telic.training.setup import build, load, make_env, make_scoring
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

    def beat(self, seconds: float) -> None:
        """Allow this long until the next sign of life."""
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
    probes = _probe_all(job, channel)
    channel.beat(_START_S)
    setup = build(job)
    evaluation_env = make_env(job, job.eval_episodes, Evaluator.seeds(job))
    evaluator = Evaluator(
        job, evaluation_env, make_scoring(job, evaluation_env), setup.population.networks
    )

    def emit(event: Event) -> None:
        channel.beat(_STEP_S)
        channel.send(event)

    recorder = Recorder(job, folder, emit, setup)

    def should_stop() -> bool:
        channel.beat(_STEP_S)
        return channel.should_stop() or folder.stop.exists()

    try:
        finished = loop.train(setup, evaluator, recorder, should_stop)
        summary = summarise(setup, recorder, finished, recorder.seconds, probes)
        recorder.emit("train.end", **summary.model_dump())
        return summary
    finally:
        recorder.close()
        setup.env.close()
        evaluation_env.close()


def _probe_all(job: TrainJob, channel: Channel) -> list[dict[str, Any] | None]:
    """Probe every reward on a small environment before anything else is built."""
    channel.beat(_PROBE_S)
    env = make_env(job, _PROBE_ENVS, [0])
    reports: list[dict[str, Any] | None] = []
    try:
        for source in job.rewards:
            channel.beat(_PROBE_S)
            report = probe(load(source), env).model_dump()
            channel.send({"event": "probe.done", "reward": source.name, **report})
            reports.append(report)
    finally:
        env.close()
    return reports
