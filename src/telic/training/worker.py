"""The confined side of training: probe the rewards, then train. Entry of the sandbox worker."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

# Everything heavy is imported here, before the process confines itself.
# pydantic is loaded at the first event.
import pydantic.type_adapter  # noqa: F401  # pyright: ignore[reportUnusedImport]
import torch

from telic.core.events import Event, LogMessage, encode
from telic.core.tensors import learn_beside_simulation
from telic.envs.simulators.names import simulated
from telic.envs.vector import VecEnv
from telic.errors import ResourceError, TrainingFailed
from telic.rewards.contract import RewardSpec, TermSpec
from telic.rewards.probe import probe
from telic.rewards.reward import Reward
from telic.sandbox.tamper import CodeSeal
from telic.storage.files import plain
from telic.storage.layout import RunFolder
from telic.training import loop
from telic.training.evaluate import Evaluator
from telic.training.group import SharedMemory, TrainingGroup
from telic.training.job import TrainJob
from telic.training.machine import Sizes, compile_all, is_gpu, require_memory
from telic.training.recorder import Recorder, summarise
from telic.training.results import EvalDone, MemberReport, RewardReport, RunReport, RunSummary
from telic.training.setup import (
    Environments,
    Setup,
    build,
    load_rewards,
    make_environments,
    make_scoring,
    warm_start,
)

START_S = 120.0
"""seconds without a sign of life that are normal while the set-up is built"""
_PROBE_S = 30.0
STEP_S = 120.0
_COMPILE_S = 900.0


class Channel(Protocol):
    """What training needs of its connection to the host."""

    def send(self, message: dict[str, Any]) -> None:
        """Report an event, encoded."""
        ...

    def heartbeat(self, seconds: float, doing: str = "") -> None:
        """Allow this long until the next sign of life; `doing` says in words what takes it."""
        ...

    def should_stop(self) -> bool:
        """Say whether the host asked to stop."""
        ...


class Prepared(NamedTuple):
    """What is ready when the process confines itself."""

    job: TrainJob
    envs: Environments | None
    """on a GPU, whose device is opened and whose kernels are compiled before, and of simulators"""
    group: TrainingGroup | None = None
    """of processes that share the environments of each member"""


def prepare(payload: dict[str, Any], channel: Channel) -> Prepared:
    """Read the order, open a GPU and what other processes are met in; before confinement."""
    job = TrainJob.model_validate(payload["job"])
    group = _join(payload["share"], channel) if "share" in payload else None
    # On the CPU, physics threads must start confined; a simulator's process cannot.
    early = is_gpu(job) or simulated(job.env)
    return Prepared(job, open_environments(job, channel, group) if early else None, group)


def _join(share: dict[str, Any], channel: Channel) -> TrainingGroup:
    """Meet the processes that train the same members."""
    rank, size = int(share["rank"]), int(share["size"])

    def wait() -> None:
        channel.heartbeat(STEP_S, "waiting for the processes it trains with")

    return TrainingGroup(rank, size, SharedMemory(Path(share["folder"]), rank, size, wait))


def run(prepared: Prepared, payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Probe, train, summarise; called confined."""
    folder, state = RunFolder(Path(payload["run"])), Path(payload["state"])
    if prepared.group is not None and not prepared.group.leads:
        train_along(prepared, folder, state, channel)
        return {}
    return train_job(prepared, folder, state, channel).model_dump()


def open_environments(
    job: TrainJob, channel: Channel, group: TrainingGroup | None = None
) -> Environments:
    """Make the environments of a run wherever they are simulated."""
    if simulated(job.env):
        return open_simulators(job, channel, group)
    return open_gpu(job, channel, group) if is_gpu(job) else make_environments(job, group)


def open_simulators(
    job: TrainJob, channel: Channel, group: TrainingGroup | None = None
) -> Environments:
    """Start the simulators' processes and wait until they are ready."""
    channel.heartbeat(_COMPILE_S, f"starting the simulator of {job.env}")
    started = time.perf_counter()
    channel.send(_log(f"starting the simulator of {job.env} (a minute or two the first time) ..."))
    if is_gpu(job):
        _set_up_gpu(job.device)
    envs = make_environments(job, group)
    if is_gpu(job):
        _warm_up_gpu(job.device)
    how = envs.training.spec.notes[0]
    channel.send(_log(f"ready after {time.perf_counter() - started:.0f} s. {how}"))
    return envs


def _set_up_gpu(device: str) -> None:
    if ":" in device:  # what names no device means this one
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = True  # ten bits of mantissa are plenty for learning


def _warm_up_gpu(device: str) -> None:
    """Load what torch loads at first use, before the process may open no more files."""
    torch.linspace(0, 1, 8, device=device).view(1, 4, 2).bmm(torch.ones(1, 2, 3, device=device))
    torch.cuda.synchronize()


def open_gpu(job: TrainJob, channel: Channel, group: TrainingGroup | None = None) -> Environments:
    """Make the environments on a GPU and compile all that they may need."""
    channel.heartbeat(_COMPILE_S, "compiling for the GPU")
    started = time.perf_counter()
    channel.send(_log(f"preparing the GPU for {job.env} (a minute or two the first time) ..."))
    _set_up_gpu(job.device)
    envs = make_environments(job, group)
    compile_all(envs)
    _warm_up_gpu(job.device)
    channel.send(_log(f"the GPU is ready after {time.perf_counter() - started:.0f} s"))
    return envs


def train_job(prepared: Prepared, folder: RunFolder, state: Path, channel: Channel) -> RunSummary:
    """Do the whole job in this process, or lead those that share its environments."""
    with _explaining_gpu(prepared.job):
        return _train_job(prepared, folder, state, channel)


def train_along(prepared: Prepared, folder: RunFolder, state: Path, channel: Channel) -> None:
    """Simulate and learn along with the process that does the job."""
    with _explaining_gpu(prepared.job):
        workshop = _furnish(prepared, channel)

        def sign_of_life() -> bool:
            channel.heartbeat(STEP_S, "training along")
            return False  # the first process says when

        try:
            loop.train(workshop.setup, None, state, sign_of_life)
            workshop.seal.check()
        finally:
            workshop.setup.env.close()
            workshop.envs.evaluation.close()


@contextmanager
def _explaining_gpu(job: TrainJob) -> Generator[None]:
    """Say what to do where a GPU fails."""
    try:
        yield
    except RuntimeError as error:  # torch's and Warp's, out of memory or worse
        if not is_gpu(job):
            raise
        said = str(error).splitlines()[0]
        if "out of memory" in said:
            raise ResourceError(
                f"The GPU ran out of memory: {said}",
                hint="Lower num_envs or train fewer members. What was saved is kept: the same "
                "command goes on from there once there is room.",
            ) from error
        if "CUDA" not in said:
            raise
        raise TrainingFailed(
            f"The GPU failed: {said}",
            hint="Run the same command again: it goes on from the last save.",
        ) from error


class Workshop(NamedTuple):
    """A process that is ready to train."""

    envs: Environments
    rewards: list[Reward]
    probes: list[dict[str, Any] | None]
    setup: Setup
    seal: CodeSeal


def _furnish(prepared: Prepared, channel: Channel) -> Workshop:
    """Load and probe rewards, and build all that learns."""
    job, envs, group = prepared
    if envs is None:
        channel.heartbeat(START_S)
        envs = open_environments(job, channel, group)
    channel.heartbeat(START_S)
    if job.device == "cpu":
        learn_beside_simulation()
    seal = CodeSeal()  # before foreign code is loaded: what it replaces later is noticed
    rewards = load_rewards(job)
    probes = probe_all(job, rewards, channel, envs.probe)
    if envs.probe is not envs.evaluation:
        envs.probe.close()
    channel.heartbeat(START_S)
    setup = build(job, rewards, envs.training, group)
    unfit = warm_start(setup)
    if unfit:
        channel.send(_log(f"{', '.join(unfit)}: nothing to go on from fits; begins anew"))
    if is_gpu(job):
        _require_memory(setup)
    return Workshop(envs, rewards, probes, setup, seal)


def _train_job(prepared: Prepared, folder: RunFolder, state: Path, channel: Channel) -> RunSummary:
    job = prepared.job
    envs, rewards, probes, setup, seal = _furnish(prepared, channel)
    evaluation_env = envs.evaluation
    evaluator = Evaluator(
        job, evaluation_env, make_scoring(job, evaluation_env, rewards), setup.population.networks
    )

    doing = f"training on {', '.join(reward.name for reward in job.rewards)}"

    def emit(event: Event) -> None:
        if isinstance(event, EvalDone):
            seal.check()
        channel.heartbeat(STEP_S, doing)
        channel.send(encode(event))

    recorder = Recorder(job, folder, emit, setup)
    for index, member in enumerate(job.members):
        spec = _complete_spec(rewards[member.reward])
        channel.send(plain(RewardReport(member=index, spec=spec)))

    def should_stop() -> bool:
        channel.heartbeat(STEP_S, doing)
        return channel.should_stop() or folder.stop.exists()

    try:
        finished = loop.train(setup, loop.Witness(evaluator, recorder), state, should_stop)
        seal.check()
        summary, members = summarise(setup, recorder, finished, recorder.seconds, probes)
        for index, result in enumerate(members):
            channel.send(plain(MemberReport(member=index, summary=result)))
        channel.send(plain(RunReport(summary=summary)))
        recorder.emit(summary)
        return summary
    finally:
        recorder.close()
        setup.env.close()
        evaluation_env.close()


def _complete_spec(reward: Reward) -> RewardSpec:
    """Return the reward's description with every term it returned, declared or not."""
    declared = {term.name for term in reward.spec.terms}
    missing = tuple(
        TermSpec(name=name, weight=reward.weights.get(name))
        for name in reward.term_names
        if name not in declared
    )
    return reward.spec.model_copy(update={"terms": reward.spec.terms + missing})


def _log(message: str) -> dict[str, Any]:
    return encode(LogMessage(message=message))


def _require_memory(setup: Setup) -> None:
    """Refuse before anything is trained if it will not fit; the simulations are there already."""
    shape = setup.population.shape
    sizes = Sizes(
        setup.population.size, shape.critic_inputs, shape.outputs, setup.scoring.term_count
    )
    require_memory(setup.population.settings, sizes, torch.cuda.mem_get_info()[0])


def probe_all(
    job: TrainJob, rewards: list[Reward], channel: Channel, env: VecEnv
) -> list[dict[str, Any] | None]:
    """Probe every reward on a small environment before anything else is built."""
    channel.heartbeat(_PROBE_S)
    reports: list[dict[str, Any] | None] = []
    for source, reward in zip(job.rewards, rewards, strict=True):
        channel.heartbeat(_PROBE_S, f"probing the reward {source.name}")
        report = probe(reward, env)
        channel.send(encode(report.model_copy(update={"reward": source.name})))
        reports.append(report.model_dump(mode="json"))
    return reports
