"""Take members out of training when their numbers stop being numbers, and keep the evidence."""

from __future__ import annotations

from torch import Tensor

from telic.errors import TrainingFailed
from telic.training.record import Recorder
from telic.training.rollout import Batch
from telic.training.setup import Setup


def unsound_batch(batch: Batch) -> Tensor:
    """Return (P,) True where a member's batch holds NaN or infinity."""
    # A sum is finite only if all its parts are: one pass, no mask as large as the data.
    total = (
        batch.rewards.sum((0, 2)) + batch.next_inputs.sum((0, 2, 3)) + batch.actions.sum((0, 2, 3))
    )
    return ~total.isfinite()


def retire_unsound(setup: Setup, batch: Batch, unsound: Tensor, recorder: Recorder) -> None:
    """Stop unsound members, save their moment, and make the batch zero where they are.

    The others go on untouched. Raises TrainingFailed when none is left.
    """
    population = setup.population
    for member in (unsound & population.alive).nonzero().flatten().tolist():
        population.alive[member] = False
        recorder.not_finite(setup, member, batch, _what(setup, member, batch))
    if bool(population.alive.all()):
        return
    if not bool(population.alive.any()):
        reasons = "; ".join(each.findings[-1].message for each in setup.health)
        raise TrainingFailed(
            f"Every member stopped. {reasons}",
            hint="Look at the reward's terms in the saved moment; clamp what can grow.",
        )
    _silence(batch, ~population.alive)


def _what(setup: Setup, member: int, batch: Batch) -> str:
    """Say in words what is not finite, and where first."""
    error = setup.scoring.error_of(member)
    if error is not None:
        return f"The reward raised an error ({error}), so its value"
    if not bool(batch.rewards[:, member].isfinite().all()):
        step, env = (~batch.rewards[:, member].isfinite()).nonzero()[0].tolist()
        names = setup.scoring.term_names[member]
        terms = batch.terms[step, member, env, : len(names)]
        bad = [name for name, ok in zip(names, terms.isfinite().tolist(), strict=True) if not ok]
        return f"The reward (terms: {', '.join(bad)})" if bad else "The reward"
    if not bool(batch.next_inputs[:, member].isfinite().all()):
        return "The observation"
    return "The gradient"


def _silence(batch: Batch, members: Tensor) -> None:
    for name in ("inputs", "next_inputs", "actions", "log_probs", "rewards", "terms"):
        numbers: Tensor = getattr(batch, name)
        numbers.masked_fill_(members.view(1, -1, *[1] * (numbers.dim() - 2)), 0.0)
