"""The native gradient steps are those of PyTorch."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from telic.training import fused, ppo
from telic.training.job import PpoSettings
from telic.training.networks import InputMask, Networks, Shape
from telic.training.population import Population, UpdateStats
from telic.training.ppo import Samples

ROWS = 600


@dataclass
class Case:
    """Sizes and settings of a population."""

    members: int = 1
    inputs: int = 17
    actor_inputs: int = 17
    actions: int = 6
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    schedule: str = "constant"
    target_kl: float = 10.0
    critic_rate: float = 1.0
    hides: bool = False

    def population(self) -> Population:
        settings = PpoSettings(
            hidden=self.hidden,
            activation=self.activation,
            schedule=self.schedule,
            target_kl=self.target_kl,
            critic_rate=self.critic_rate,
        )
        shape = Shape(
            self.actor_inputs, self.inputs, self.actions, False, self.hidden, self.activation
        )
        masks = None
        if self.hides:
            seen = torch.arange(self.actor_inputs) < 3
            masks = [InputMask(seen, torch.ones(self.inputs, dtype=torch.bool))] * self.members
        return Population(
            [settings] * self.members, range(self.members), Networks(shape), masks=masks
        )

    def samples(self) -> Samples:
        population, generator = self.population(), torch.Generator().manual_seed(1)

        def normal(*shape: int) -> Tensor:
            return torch.randn(self.members, ROWS, *shape, generator=generator)

        inputs, log_std = normal(self.inputs), population.views.log_std
        means = population.networks.act(population.views, population.part(inputs))
        actions = means + normal(self.actions) * log_std.exp().unsqueeze(1)
        log_probs = population.distribution.log_prob(means, log_std, actions)
        return Samples(inputs, actions, log_probs + 0.2 * normal(), normal(), normal())

    def compare(self, samples: Samples) -> tuple[Population, Population, UpdateStats, UpdateStats]:
        """Update two equal populations in two epochs, the first with PyTorch."""
        done: list[tuple[Population, UpdateStats]] = []
        for update in (ppo._update, fused.run_epochs):
            population = self.population()
            rows = samples.advantages.shape[1]
            orders = list(population.shuffles(0, rows))[:2]
            done.append((population, update(population, population.actor(), samples, orders, 256)))
        (plain, plain_stats), (native, native_stats) = done
        return plain, native, plain_stats, native_stats


@pytest.fixture(autouse=True)
def compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("the library is compiled only where there is a C compiler")


@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(members=3, inputs=20, schedule="per_minibatch", target_kl=0.02),
        Case(hidden=(48,), activation="relu", actions=1, critic_rate=3.0),
        Case(members=2, inputs=131, actor_inputs=101, hidden=(32, 20, 16), activation="elu"),
        Case(inputs=9, actor_inputs=9, hides=True, schedule="adaptive"),
    ],
    ids=lambda case: f"{case.hidden}-{case.activation}",
)
def test_takes_the_steps_of_pytorch(case: Case) -> None:
    assert fused.is_supported(case.population())
    plain, native, plain_stats, native_stats = case.compare(case.samples())
    moved = (plain.flat - case.population().flat).abs().max()
    assert moved > 1e-3
    assert (plain.flat - native.flat).abs().max() < 1e-3 * moved
    assert plain.adam.count.equal(native.adam.count) and int(plain.adam.count[0]) == 6
    torch.testing.assert_close(plain.learning_rate, native.learning_rate)
    for expected, found in zip(plain_stats, native_stats, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_members_stop_at_the_kl_limit_alone() -> None:
    case = Case(members=2, target_kl=0.05)
    samples = case.samples()
    samples.log_probs[1] += 1.0  # far from the policy that acted
    plain, native, plain_stats, native_stats = case.compare(samples)
    assert plain_stats.steps.tolist() == native_stats.steps.tolist() == [6.0, 1.0]
    assert native.flat[1].equal(case.population().flat[1])
    assert (plain.flat - native.flat).abs().max() < 1e-5


def test_non_finite_gradients_change_nothing() -> None:
    case = Case(members=2)
    samples = case.samples()
    samples.returns[0, 5] = torch.nan
    _, native, plain_stats, native_stats = case.compare(samples)
    assert plain_stats.finite.tolist() == native_stats.finite.tolist() == [False, True]
    assert native.flat[0].isfinite().all() and native.flat[1].isfinite().all()


def test_training_works_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "__file__", str(Path("nowhere") / "fused.py"))
    fused.native_library.cache_clear()
    try:
        assert not fused.is_supported(Case().population())
    finally:
        monkeypatch.undo()
        fused.native_library.cache_clear()
