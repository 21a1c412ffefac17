"""Entry point for the sandboxed training worker: probe the rewards, then train."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# Slow imports happen here, before confinement. The type adapter of pydantic would otherwise be
# imported at the first event.
import pydantic.type_adapter  # noqa: F401
import torch

from telic.core.events import Event, LogMessage, encode_event
from telic.core.tensors import use_simulation_threads
from telic.envs.simulators.names import simulated
from telic.envs.spec import RewardSpec, TermSpec
from telic.envs.vector import VecEnv
from telic.errors import ResourceError, TrainingFailed
from telic.rewards.probe import probe
from telic.rewards.reward import Reward
from telic.sandbox.tamper import FunctionSnapshot
from telic.sandbox.worker import HostChannel
from telic.storage.files import plain
from telic.storage.layout import RunFolder
from telic.training import loop
from telic.training.evaluate import Evaluator
from telic.training.job import TrainJob
from telic.training.machine import compile_all
from telic.training.recorder import Recorder, summarize_run
from telic.training.results import EvalDone, TrainingReport
from telic.training.setup import (
    Environments,
    build_setup,
    load_rewards,
    make_environments,
    make_scoring,
    warm_start,
)

_START_S = 120.0
"""heartbeat timeout in seconds while training is set up"""
_PROBE_S = 30.0
_STEP_S = 120.0
_COMPILE_S = 900.0


class Prepared(NamedTuple):
    """Job and environments that are prepared before confinement."""

    job: TrainJob
    envs: Environments | None
    """environments that must be opened before confinement (on a GPU or in external simulators)"""


def prepare(payload: dict[str, Any], channel: HostChannel) -> Prepared:
    """Parse the job and open the GPU and external simulators before confinement."""
    job = TrainJob.model_validate(payload["job"])
    # On the CPU, physics threads must start confined; a simulator's process cannot.
    early = job.on_gpu or simulated(job.env)
    sys.path.extend(payload["imports"] if early else ())  # appended, so that it shadows nothing
    return Prepared(job, _open_environments(job, channel) if early else None)


def run(prepared: Prepared, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Probe the rewards, train and report. Called after confinement."""
    with _explaining_gpu(prepared.job):
        _train(prepared, RunFolder(Path(payload["run"])), Path(payload["state"]), channel)
    return {}


def _open_environments(job: TrainJob, channel: HostChannel) -> Environments:
    """Create the environments of a run, and on a GPU also compile their kernels."""
    if not (job.on_gpu or simulated(job.env)):
        return make_environments(job)
    what = f"the simulator of {job.env}" if simulated(job.env) else f"the GPU for {job.env}"
    channel.heartbeat(_COMPILE_S, f"preparing {what}")
    started = time.perf_counter()
    channel.send(_log(f"preparing {what} (takes a minute or two the first time) ..."))
    if job.on_gpu:
        if ":" in job.device:  # makes it the default device
            torch.cuda.set_device(job.device)
        torch.set_num_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = True  # a 10-bit mantissa is sufficient
        torch.backends.cudnn.enabled = False  # it would be loaded lazily, after confinement
    envs = make_environments(job)
    if not simulated(job.env):
        compile_all(envs)
    if job.on_gpu:  # trigger torch's lazy loading before opening files is blocked
        row = torch.linspace(0, 1, 8, device=job.device)
        row.view(1, 4, 2).bmm(torch.ones(1, 2, 3, device=job.device))
        torch.cuda.synchronize()
    note = f" {envs.training.spec.notes[0]}" if simulated(job.env) else ""
    channel.send(_log(f"ready after {time.perf_counter() - started:.0f} s.{note}"))
    return envs


@contextmanager
def _explaining_gpu(job: TrainJob) -> Generator[None]:
    """Convert GPU errors to errors with hints."""
    try:
        yield
    except RuntimeError as error:  # raised by torch and Warp
        if not job.on_gpu:
            raise
        reason = str(error).splitlines()[0]
        if "out of memory" in reason:
            raise ResourceError(
                f"The GPU ran out of memory: {reason}",
                hint="Lower num_envs or train fewer members. Progress is saved: rerun the same "
                "command to resume.",
            ) from error
        if "CUDA" not in reason:
            raise
        raise TrainingFailed(
            f"The GPU failed: {reason}",
            hint="Run the same command again: it resumes from the last save.",
        ) from error


def _train(prepared: Prepared, folder: RunFolder, state: Path, channel: HostChannel) -> None:
    """Train in this process until the job is complete or stopped."""
    job, envs = prepared
    if envs is None:
        channel.heartbeat(_START_S)
        envs = _open_environments(job, channel)
    channel.heartbeat(_START_S)
    if job.device == "cpu":
        use_simulation_threads()
    seal = FunctionSnapshot()  # before untrusted code is loaded, to detect tampering
    rewards = load_rewards(job)
    probes = _probe_all(job, rewards, channel, envs.probe)
    if envs.probe is not envs.evaluation:
        envs.probe.close()
    channel.heartbeat(_START_S)
    channel.send(_log(f"learner: {job.settings.learner}"))
    setup = build_setup(job, rewards, envs.training)
    if unfit := warm_start(setup):
        names = ", ".join(unfit)
        channel.send(_log(f"{names}: training starts without an initial policy"))
    doing = f"training on {', '.join(one.name for one in job.rewards)}"

    def emit(event: Event) -> None:
        if isinstance(event, EvalDone):
            seal.check()
        channel.heartbeat(_STEP_S, doing)
        channel.send(encode_event(event))

    def should_stop() -> bool:
        channel.heartbeat(_STEP_S, doing)
        return channel.should_stop() or folder.stop.exists()

    recorder = Recorder(job, folder, emit, setup)
    try:
        specs = tuple(_complete_spec(rewards[member.reward]) for member in job.members)
        channel.send(plain(TrainingReport(rewards=specs)))
        scoring = make_scoring(job, envs.evaluation, rewards)
        evaluator = Evaluator(job, envs.evaluation, scoring, setup.population.networks)
        finished = loop.run_training(setup, loop.Monitor(evaluator, recorder), state, should_stop)
        seal.check()
        summary, members = summarize_run(setup, recorder, finished, recorder.seconds, probes)
        channel.send(plain(TrainingReport(members=tuple(members), summary=summary)))
        recorder.emit(summary)
    finally:
        recorder.close()
        setup.env.close()
        envs.evaluation.close()


def _complete_spec(reward: Reward) -> RewardSpec:
    """Return the reward specification, extended by undeclared terms of the reward."""
    declared = {term.name for term in reward.spec.terms}
    missing = tuple(
        TermSpec(name=name, weight=reward.weights.get(name))
        for name in reward.term_names
        if name not in declared
    )
    return reward.spec.model_copy(update={"terms": reward.spec.terms + missing})


def _probe_all(
    job: TrainJob, rewards: list[Reward], channel: HostChannel, env: VecEnv
) -> list[dict[str, Any] | None]:
    """Probe every reward on a small environment and return the reports."""
    reports: list[dict[str, Any] | None] = []
    for source, reward in zip(job.rewards, rewards, strict=True):
        patience_s = _STEP_S if job.on_gpu else _PROBE_S  # first kernels wait for a busy GPU
        channel.heartbeat(patience_s, f"probing the reward {source.name}")
        report = probe(reward, env)
        channel.send(encode_event(report.model_copy(update={"reward": source.name})))
        reports.append(report.model_dump(mode="json"))
    return reports


def _log(message: str) -> dict[str, Any]:
    return encode_event(LogMessage(message=message))
