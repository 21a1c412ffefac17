"""Compute the return of a reward on episodes that were recorded with other rewards.

A recording holds what quantities are measured from, not everything that a reward may read. So the
episodes are played again from where they started, action by action, and the reward is called on
every step. Initial states and physics are the same on a CPU; an episode that does not end as it was
recorded is left out. The reward is foreign code: that happens in a confined worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ConfigDict, FiniteFloat, ValidationError
from torch import Tensor

from telic.core.config import Record
from telic.core.tensors import use_one_thread
from telic.core.text import is_row
from telic.envs import make
from telic.envs.access import env_access
from telic.errors import WorkerDied
from telic.judges.recorder import decided_reward
from telic.rewards.reward import Reward
from telic.storage.trajectories import read_trajectory

_PAYING_S = 120.0
_SAME = 1e-3
"""tolerance of observations against those recorded, absolute and as a share of their size"""


class PaidOrder(Record):
    """Recorded episodes of one policy, which all started from one seed, in their order."""

    env: str
    env_args: dict[str, Any]
    paths: tuple[str, ...]


class EpisodePay(Record):
    """Return of a reward over one episode, and by term."""

    model_config = ConfigDict(strict=True)

    total: FiniteFloat
    terms: dict[str, FiniteFloat]


def pay_for(
    reward: str, orders: Sequence[PaidOrder], folder: Path
) -> list[list[EpisodePay | None]]:
    """Return the pay of recorded episodes; None: it cannot be computed.

    Args:
        reward: text of the reward file.
        orders: the episodes, by policy.
        folder: where the worker may write.

    Raises:
        TelicError: the reward cannot be run; names the place and the fix.
    """
    from telic.sandbox.host import run_worker

    folder.mkdir(parents=True, exist_ok=True)
    access = [env_access(order.env, order.env_args) for order in orders]
    places = {Path(path).absolute().parent for order in orders for path in order.paths}
    result = run_worker(
        "telic.judges.payment",
        {"reward": reward, "orders": [order.model_dump(mode="json") for order in orders]},
        writable=[folder.absolute()],
        readable=sorted(places.union(*(each.readable for each in access))),
        python_path=sorted({path for each in access for path in each.python_path}),
    )
    pays = result.get("pays")
    shape = [len(row) if is_row(row) else -1 for row in pays] if is_row(pays) else []
    if not is_row(pays) or shape != [len(order.paths) for order in orders]:
        raise WorkerDied("The worker did not return the pay of each episode.")
    return [[_checked(each) for each in row] for row in pays if is_row(row)]


def _checked(pay: object) -> EpisodePay | None:
    """Return numbers that came from foreign code, if they are finite."""
    try:
        return EpisodePay.model_validate(pay)
    except ValidationError:
        return None


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Play episodes again and reward them; entry of the confined worker."""
    use_one_thread()
    pays: list[list[dict[str, Any] | None]] = []
    orders = [PaidOrder.model_validate(row) for row in payload["orders"]]
    reward = decided_reward(payload["reward"], orders[0].env, orders[0].env_args)
    for order in orders:
        channel.heartbeat(_PAYING_S, "paying recorded episodes")
        found = pay_here(reward, order)
        pays.append([None if each is None else each.model_dump() for each in found])
    return {"pays": pays}


def pay_here(reward: Reward, order: PaidOrder) -> list[EpisodePay | None]:
    """Play the episodes of a policy again in this process, and return the pay of each.

    None for an episode that does not end as it was recorded.
    """
    tapes = [read_trajectory(Path(path), (order.env, order.env_args)) for path in order.paths]
    seed, count = tapes[0].facts.seed, len(tapes)
    if seed is None or [tape.facts.extra.get("row") for tape in tapes] != list(range(count)):
        return [None] * count  # not from the start of one batch
    env = make(order.env, num_envs=count, seed=seed, **order.env_args)
    lengths = torch.tensor([len(tape) for tape in tapes])
    steps = np.arange(int(lengths.max()))  # after its end, an episode repeats its last action
    rows = [np.asarray(tape["action"])[steps.clip(max=len(tape) - 1)] for tape in tapes]
    reward.start(count, "cpu")
    sums: dict[str, Tensor] = {"": torch.zeros(count)}
    last = torch.zeros(count, env.obs_dim)
    obs = env.reset()
    for t, action in enumerate(torch.tensor(np.stack(rows, 1))):
        step = env.step(action)
        paid = reward(obs, action, step.final_obs, step.info, step.reward)
        for name, value in (("", paid.total), *paid.terms.items()):
            sums[name] = sums.get(name, 0.0) + torch.where(t < lengths, value, 0.0)
        last = torch.where(lengths.eq(t + 1).unsqueeze(-1), step.final_obs, last)
        reward.reset(step.terminated | step.truncated)
        obs = step.obs
    env.close()
    pays: list[EpisodePay | None] = []
    for row, tape in enumerate(tapes):
        wanted = torch.tensor(np.array(tape["next_obs"][-1], dtype=np.float32))
        terms = {name: float(value[row]) for name, value in sums.items()}
        is_same = torch.allclose(last[row], wanted, rtol=_SAME, atol=_SAME)
        pays.append(_checked({"total": terms.pop(""), "terms": terms}) if is_same else None)
    return pays
