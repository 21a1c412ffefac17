"""Policy evaluation on separate episodes, with recorded trajectories for judges and videos."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.core.stats import bootstrap
from telic.core.tensors import numbers
from telic.envs.vector import VecEnv, cut_episode
from telic.sim.cuda_graph import GraphedCallable
from telic.storage.trajectories import RECORDED, Trajectory
from telic.training.job import TrainJob
from telic.training.networks import PolicyNetworks, distribution
from telic.training.population import Actor
from telic.training.results import EvaluationRecord
from telic.training.rollout import ActionMap, Scoring

LABELS = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_PIECE = 20
"""number of steps between checks for unfinished episodes"""
UNLIMITED = 1000
"""time limit in steps for evaluating environments that have none"""


class Evaluation(NamedTuple):
    """Evaluation records and the p10, median and p90 trajectories of each member."""

    records: list[EvaluationRecord]
    trajectories: list[dict[str, Trajectory]]


class Evaluator:
    """Evaluate all members from the same initial states."""

    def __init__(
        self, job: TrainJob, env: VecEnv, scoring: Scoring, networks: PolicyNetworks
    ) -> None:
        self.job = job
        self.env = env
        self.scoring = scoring
        self.networks = networks
        self.members = len(job.members)
        self.episodes = env.num_envs // self.members
        self.limit = env.max_episode_steps or UNLIMITED
        self._to_env = ActionMap(env)
        self._distribution = distribution(networks.shape)
        self._actor: Actor | None = None
        self._obs = self._live = torch.empty(0)
        self._graphed = GraphedCallable(self._some_steps, [self, env, scoring], env.device)
        self._fields = [name for name in RECORDED if name in env.spec.info_keys]

    @staticmethod
    def seeds(job: TrainJob) -> list[int]:
        """Return the evaluation seeds, shared by all members and different from training seeds."""
        return [derive("evaluation", job.env)] * len(job.members)

    @torch.no_grad()
    def evaluate(self, actor: Actor, global_step: int) -> Evaluation:
        """Run one episode per environment with deterministic actions."""
        tape, spec = self._play(actor), self.env.spec
        totals = tape["reward"].sum(0).view(self.members, self.episodes)
        lengths = tape["played"].sum(0).view(self.members, self.episodes)
        recorded = {name: value.numpy() for name, value in tape.items() if name != "played"}
        records: list[EvaluationRecord] = []
        kept: list[dict[str, Trajectory]] = []
        for member in range(self.members):
            columns = slice(member * self.episodes, (member + 1) * self.episodes)
            records.append(self._record(member, tape, columns, global_step))
            order = torch.nan_to_num(totals[member], nan=-torch.inf).argsort()
            kept.append({})
            for label, share in LABELS.items():
                pick = int(order[min(int(share * self.episodes), self.episodes - 1)])
                total, names = totals[member, pick].item(), self.scoring.term_names[member]
                kept[-1][label] = cut_episode(
                    {**recorded, "reward_terms": recorded["reward_terms"][:, :, : len(names)]},
                    columns.start + pick,
                    int(lengths[member, pick]),
                    spec,
                    (self.job.env, self.job.env_args),
                    dt_s=spec.dt_s or 1.0,
                    seed=self.seeds(self.job)[member],
                    label=label,
                    global_step=global_step,
                    total_return=total if np.isfinite(total) else None,
                    reward_term_names=tuple(names),
                    extra={"row": pick},
                )
        return Evaluation(records, kept)

    def _play(self, actor: Actor) -> dict[str, Tensor]:
        """Play episodes to columns (T, N, ...). At their end, `played` is False and rewards 0."""
        env = self.env
        if self._actor is None or env.device.type == "cpu":
            self._actor = actor
        else:
            self._actor.copy_(actor)  # the CUDA graph reads from fixed addresses
        self._obs = env.reset(self.seeds(self.job))
        everyone = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        self.scoring.reset(everyone.view(self.members, self.episodes))
        self._live = everyone
        pieces: list[dict[str, Tensor]] = []
        # Run in chunks, because checking for episode ends synchronizes a GPU.
        for _ in range(0, self.limit, _PIECE):
            piece = self._graphed()
            pieces.append({name: value.cpu() for name, value in piece.items()})
            if not self._live.any():
                break
        return {
            name: torch.cat([piece[name] for piece in pieces])[: self.limit] for name in pieces[0]
        }

    def _some_steps(self) -> dict[str, Tensor]:
        """Run the next chunk of steps."""
        env, scoring, networks, actor = self.env, self.scoring, self.networks, self._actor
        assert actor is not None
        shape = self.members, self.episodes
        obs, live = self._obs, self._live
        inputs = torch.empty(*shape, networks.shape.critic_inputs, device=env.device)
        tape: dict[str, list[Tensor]] = {}
        with env.foreseeing():
            for _ in range(_PIECE):
                scoring.inputs(obs, None, out=inputs)
                outputs = networks.act(actor.views, actor.part(actor.scaling.apply(inputs)))
                action = self._to_env(self._distribution.mode(outputs))
                step = env.step(action)
                score = scoring.score(obs, action, step)
                done = step.terminated | step.truncated
                row = {
                    "obs": obs,
                    "action": action,
                    "next_obs": step.final_obs,
                    "reward": torch.where(live, score.total.flatten(), 0.0),
                    "reward_terms": torch.where(live[:, None], score.terms.flatten(0, 1), 0.0),
                    "env_reward": torch.where(live, step.reward, 0.0),
                    "terminated": step.terminated & live,
                    "truncated": step.truncated & live,
                    "played": live,
                    **{name: step.info[name] for name in self._fields},
                }
                for name, value in row.items():
                    tape.setdefault(name, []).append(value)
                scoring.reset(done.view(shape))
                live = live & ~done
                obs = step.obs
        self._obs, self._live = obs, live
        return {name: torch.stack(values) for name, values in tape.items()}

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary of the current observations and the mask of running episodes."""
        return {"obs": self._obs, "live": self._live}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the current observations and the mask of running episodes."""
        self._obs, self._live = tensors["obs"], tensors["live"]

    def _record(
        self, member: int, tape: dict[str, Tensor], columns: slice, global_step: int
    ) -> EvaluationRecord:
        names = self.scoring.term_names[member]
        # Only the member's terms, because rounding of sums depends on the row width.
        own = tape["reward_terms"][:, columns, : len(names)].contiguous()
        terms = numbers(own.sum(0).mean(0))
        env_return = tape["env_reward"][:, columns].sum(0).mean().item()
        return evaluation_record(
            global_step,
            tape["reward"][:, columns].sum(0).double().numpy(),
            episode_length=tape["played"][:, columns].sum(0).float().mean().item(),
            terminated_share=tape["terminated"][:, columns].any(0).float().mean().item(),
            env_return=env_return if np.isfinite(env_return) else None,
            reward_terms={
                name: value if np.isfinite(value) else None
                for name, value in zip(names, terms, strict=True)
            },
        )


def evaluation_record(global_step: int, returns: np.ndarray, **rest: Any) -> EvaluationRecord:
    """Return the statistics of returns, or None if any return is not finite."""
    is_finite = bool(np.isfinite(returns).all())

    def of(function: Any, *args: Any) -> float | None:
        return float(function(returns, *args)) if is_finite else None

    return EvaluationRecord(
        global_step=global_step,
        episodes=len(returns),
        mean_return=of(np.mean),
        interval=bootstrap(list(returns)) if is_finite else None,
        std_return=of(np.std),
        min_return=of(np.min),
        p10_return=of(np.quantile, 0.1),
        median_return=of(np.median),
        p90_return=of(np.quantile, 0.9),
        max_return=of(np.max),
        all_returns=[float(x) if np.isfinite(x) else None for x in returns],
        **rest,
    )
