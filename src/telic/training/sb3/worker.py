"""The confined side of training with Stable-Baselines3. Entry of the sandbox worker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import stable_baselines3
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from telic.core.events import Event, LogMessage, TrainEnd, encode, from_facts
from telic.storage.files import plain, replacing
from telic.storage.layout import RunFolder
from telic.training.evaluate import Evaluator
from telic.training.health import Finding
from telic.training.job import TrainJob
from telic.training.recorder import PROGRESS_EVERY_S, Recorder, summarise
from telic.training.results import MemberReport, RewardReport, RunReport, RunSummary, combined
from telic.training.sb3.conversion import (
    BatchedEnv,
    NotFiniteError,
    adopt,
    normalised,
    not_honoured,
    ppo_arguments,
)
from telic.training.setup import PROBE_ENVS, Setup, build, load_rewards, make_env, make_scoring
from telic.training.worker import START_S, STEP_S, Channel, probe_all

ALGORITHM = f"Stable-Baselines3 {stable_baselines3.__version__} PPO"
_COLUMNS = {
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "approx_kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "explained_variance": "train/explained_variance",
    "learning_rate": "train/learning_rate",
}


def prepare(payload: dict[str, Any], channel: Channel) -> TrainJob:
    """Read the order; called before confinement."""
    return TrainJob.model_validate(payload["job"])


def run(job: TrainJob, payload: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Probe, train the members one after another, summarise; called confined."""
    folder = RunFolder(Path(payload["run"]))
    return train_members(job, folder, channel, native=payload["native"]).model_dump()


def train_members(
    job: TrainJob, folder: RunFolder, channel: Channel, *, native: bool
) -> RunSummary:
    """Do the whole job in this process; after every member the summary is up to date."""
    channel.heartbeat(START_S)
    rewards = load_rewards(job)
    probe_env = make_env(job, PROBE_ENVS, [0])
    probes = probe_all(job, rewards, channel, probe_env)
    probe_env.close()
    missing = not_honoured(job.settings)
    if missing:
        text = f"{ALGORITHM} does not have: {', '.join(missing)}."
        channel.send(encode(LogMessage(message=text)))
    parts: list[RunSummary] = []
    for index, member in enumerate(job.members):
        channel.heartbeat(START_S)
        solo = _solo(job, index)
        reward = rewards[member.reward]
        channel.send(plain(RewardReport(member=index, spec=reward.spec)))
        env = make_env(solo, job.settings.num_envs, [member.seed])
        setup = build(solo, [reward], env)
        evaluation_env = make_env(solo, job.eval_episodes, Evaluator.seeds(solo))
        scoring = make_scoring(solo, evaluation_env, [reward])
        evaluator = Evaluator(solo, evaluation_env, scoring, setup.population.networks)
        try:
            trainer = _Trainer(job, index, setup, evaluator, folder, channel, native=native)
            parts.append(trainer.train(probes[member.reward]))
        finally:
            setup.env.close()
            evaluation_env.close()
        summary = combined(job, folder, parts, _status(job, parts))
        channel.send(plain(RunReport(summary=summary)))
        if parts[-1].status == "stopped":
            break
    summary = combined(job, folder, parts, _status(job, parts))
    channel.send(encode(from_facts(TrainEnd, summary.model_dump())))
    return summary


def _status(job: TrainJob, parts: list[RunSummary]) -> Literal["completed", "stopped"]:
    is_whole = len(parts) == len(job.members) and all(part.status == "completed" for part in parts)
    return "completed" if is_whole else "stopped"


def _solo(job: TrainJob, index: int) -> TrainJob:
    """Return the job of one member, with settings that describe what the parts around it need."""
    member = job.members[index]
    # The converted policy always has a normaliser, layers of its own and no privileged critic.
    settings = member.settings.replace(normalise_obs=True, shared_value=False, critic_sees=())
    alone = member.model_copy(update={"reward": 0, "settings": settings})
    return job.model_copy(update={"rewards": (job.rewards[member.reward],), "members": (alone,)})


class _Trainer:
    """Trains one member and keeps its records."""

    def __init__(
        self,
        job: TrainJob,
        index: int,
        setup: Setup,
        evaluator: Evaluator,
        folder: RunFolder,
        channel: Channel,
        *,
        native: bool,
    ) -> None:
        member = job.members[index]
        self.index = index
        self.setup = setup
        self.evaluator = evaluator
        self.folder = folder
        self.channel = channel
        self.iteration = 0
        self.stopped = False
        self._evaluate_after = set(setup.job.evaluation_iterations())
        self.recorder = Sb3Recorder(setup.job, folder, self._emit, setup)
        self.env = BatchedEnv(
            setup.env, setup.scoring, setup.tracker, native=native, stagger=member.settings.stagger
        )
        self.model = PPO(
            "MlpPolicy",
            normalised(self.env, member.settings),
            seed=member.seed,
            device="cpu",
            **ppo_arguments(member.settings),
        )
        self.model.set_logger(Logger(folder=None, output_formats=[]))
        self._start = self.learning_since = time.perf_counter()

    def _emit(self, event: Event) -> None:
        self.channel.heartbeat(STEP_S)
        self.channel.send(encode(event))

    def train(self, probe: dict[str, Any] | None) -> RunSummary:
        """Train to the end, until asked to stop, or until something is not finite."""
        recorder = self.recorder
        recorder.announce("cpu", resumed=False)
        self._start = time.perf_counter()
        try:
            self.model.learn(recorder.total_steps, callback=_Hooks(self), log_interval=None)  # type: ignore[arg-type]
            self._keep()
        except NotFiniteError as error:
            self.setup.population.alive[0] = False
            recorder.ended_badly(str(error))
        seconds = time.perf_counter() - self._start
        summary, (member,) = summarise(self.setup, recorder, not self.stopped, seconds, [probe])
        result = member.model_copy(update={"algorithm": ALGORITHM})
        self.channel.send(plain(MemberReport(member=self.index, summary=result)))
        recorder.close()
        return summary

    def after_update(self) -> None:
        """Record one update; evaluate when it is time."""
        now = time.perf_counter()
        population = self.setup.population
        adopt(population, self.model)
        if not bool(population.flat.isfinite().all()):
            raise NotFiniteError("A weight")
        self.iteration += 1
        std = population.networks.views(population.flat).log_std.exp().mean().item()
        self.recorder.row(
            self.iteration,
            self.model.logger.name_to_value,
            None if population.shape.discrete else std,
            self.env.ended,
            now - self._start,
            now - self.learning_since,
        )
        self.env.ended = 0
        if self.iteration in self._evaluate_after:
            self._evaluate()
        self.channel.heartbeat(STEP_S)
        is_asked = self.channel.should_stop() or self.folder.stop.exists()
        self.stopped = is_asked and self.iteration < self.setup.job.iterations

    def _evaluate(self) -> None:
        actor = self.setup.population.actor()
        started = time.perf_counter()
        evaluation = self.evaluator.evaluate(actor, self.recorder.step)
        self.recorder.evaluation(evaluation, self.setup, time.perf_counter() - started)

    def _keep(self) -> None:
        """Save the policy as it is, for there is no resuming, and the model as SB3 has it."""
        if self.stopped and self.iteration not in self._evaluate_after:
            self._evaluate()
        folder = self.recorder.folders[0].checkpoints_dir
        with replacing(folder / "final.zip") as temporary:
            self.model.save(temporary)
        normaliser = self.model.get_vec_normalize_env()
        if normaliser is not None:
            with replacing(folder / "vecnormalize.pkl") as temporary:
                normaliser.save(str(temporary))


class _Hooks(BaseCallback):
    """Tells the trainer of every finished update, at the next public moment after it."""

    def __init__(self, trainer: _Trainer) -> None:
        super().__init__()
        self._trainer = trainer

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self._trainer.after_update()

    def _on_rollout_end(self) -> None:
        self._trainer.learning_since = time.perf_counter()

    def _on_step(self) -> bool:
        return not self._trainer.stopped

    def _on_training_end(self) -> None:
        if not self._trainer.stopped:
            self._trainer.after_update()


class Sb3Recorder(Recorder):
    """Writes what Stable-Baselines3 logs under the names our trainer uses."""

    def row(
        self,
        iteration: int,
        logged: dict[str, Any],
        std: float | None,
        ended: int,
        seconds: float,
        learning: float,
    ) -> None:
        """Write the row of one update; `logged` is what Stable-Baselines3's logger holds."""
        self.seconds = seconds
        self.step = iteration * self.job.settings.batch_size
        rate = self._rate(seconds)
        entropy = logged.get("train/entropy_loss")
        row = {
            "global_step": self.step,
            "iteration": iteration,
            **{name: _number(logged.get(key)) for name, key in _COLUMNS.items()},
            "entropy": None if entropy is None else -float(entropy),
            "policy_std": std,
            **self._episodes(0, ended),
            "sps": rate,
            "elapsed_time": seconds,
            "train_time": learning,
        }
        self._scalars[0].append(row)
        for board in self._boards:
            board.add_row(row)
        for finding in self._setup.health[0].watch(row, self.step / self.total_steps):
            self._report(0, finding)
        if iteration == 1 or time.perf_counter() - self._last_progress > PROGRESS_EVERY_S:
            self._progress(seconds, rate)

    def ended_badly(self, what: str) -> None:
        """Tell why the member stopped."""
        text = f"{what} became NaN or infinite; this member stopped."
        finding = Finding(name="not_finite", message=text, values={}, step=self.step)
        self._setup.health[0].findings.append(finding)
        self._report(0, finding)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
