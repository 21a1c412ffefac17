"""What a reward would have paid for episodes that were recorded with other ones.

A recording holds what quantities are measured from, not everything that a reward may ask for. So
the episodes are played again from where they started, action by action, and the reward is called on
every step. Starts and physics are the same on a processor; an episode that does not come out as it
was recorded is left out. The reward is foreign code: that happens in a confined worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from telic.storage.trajectories import Trajectory, read_trajectory

_PAYING_S = 120.0
_SAME = 1e-3
"""how far observations may be from those recorded, in parts of their size"""


class PaidOrder(Record):
    """Recorded episodes of one policy, which all started from one seed, in their order."""

    env: str
    env_args: dict[str, Any]
    paths: tuple[str, ...]


class EpisodePay(Record):
    """What a reward pays for one episode."""

    model_config = ConfigDict(strict=True)

    total: FiniteFloat
    terms: dict[str, FiniteFloat]


def pay_for(
    reward: str, orders: Sequence[PaidOrder], folder: Path
) -> list[list[EpisodePay | None]]:
    """Return what a reward pays for recorded episodes; None: it cannot be said.

    Args:
        reward: text of the reward file.
        orders: the episodes, by policy.
        folder: where the worker may write.

    Raises:
        TelicError: the reward cannot be run; says where and how to mend it.
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
    told = result.get("pays")
    shape = [len(row) if is_row(row) else -1 for row in told] if is_row(told) else []
    if not is_row(told) or shape != [len(order.paths) for order in orders]:
        raise WorkerDied("The worker did not say what each episode is paid.")
    return [[_believed(each) for each in row] for row in told if is_row(row)]


def _believed(told: object) -> EpisodePay | None:
    """Return numbers that came from foreign code, if they are finite."""
    try:
        return EpisodePay.model_validate(told)
    except ValidationError:
        return None


# ---------------------------------------------- the confined side: entry of the sandbox worker


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Play episodes again and reward them."""
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
    """Play the episodes of a policy again in this process, and return what each is paid."""
    tapes = [read_trajectory(Path(path), (order.env, order.env_args)) for path in order.paths]
    seed = tapes[0].facts.seed
    if seed is None or [tape.facts.extra.get("row") for tape in tapes] != list(range(len(tapes))):
        return [None] * len(tapes)  # not from the start of one batch
    env = make(order.env, num_envs=len(tapes), seed=seed, **order.env_args)
    actions = _padded(tapes)
    reward.start(len(tapes), "cpu")
    lengths = torch.tensor([len(tape) for tape in tapes])
    sums: dict[str, Tensor] = {"": torch.zeros(len(tapes))}
    last = torch.zeros(len(tapes), env.obs_dim)
    obs = env.reset()
    for t, action in enumerate(actions):
        step = env.step(action)
        paid = reward(obs, action, step.final_obs, step.info, step.reward)
        live = t < lengths
        for name, value in (("", paid.total), *paid.terms.items()):
            sums[name] = sums.get(name, 0.0) + torch.where(live, value, 0.0)
        last = torch.where(lengths.eq(t + 1).unsqueeze(-1), step.final_obs, last)
        reward.reset(step.terminated | step.truncated)
        obs = step.obs
    env.close()
    return [_pay(sums, row, last[row], tape) for row, tape in enumerate(tapes)]


def _pay(sums: Mapping[str, Tensor], row: int, last: Tensor, tape: Trajectory) -> EpisodePay | None:
    """Return what an episode was paid; None if it did not come out as it was recorded."""
    wanted = torch.tensor(np.array(tape["next_obs"][-1], dtype=np.float32))
    if not torch.allclose(last, wanted, rtol=_SAME, atol=_SAME):
        return None
    terms = {name: float(value[row]) for name, value in sums.items()}
    return _believed({"total": terms.pop(""), "terms": terms})


def _padded(tapes: Sequence[Trajectory]) -> Tensor:
    """Return the actions of all episodes, (T, N, ...), the last one repeated behind their ends."""
    longest = max(len(tape) for tape in tapes)
    rows = [
        np.asarray(tape["action"])[np.arange(longest).clip(max=len(tape) - 1)] for tape in tapes
    ]
    return torch.tensor(np.stack(rows, 1))
