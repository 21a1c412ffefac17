"""Several processes that train one tracker: the same weights, from what all of them saw."""

import json

import pytest
import torch

from telic.core.events import ignore
from telic.motions.shelf import LibraryWriter, head_for
from telic.storage.layout import RunFolder
from telic.tracking.processes import SharedMoments
from telic.tracking.tracker import load_tracker
from telic.tracking.train import TrackingOptions, read_config, resume_tracker, train_tracker
from telic.training.population import Moments
from tests.tracking.constructed import library, tiny


@pytest.mark.parametrize("seed", range(4))
def test_moments_of_two_processes_are_those_of_all_they_saw(seed):
    generator = torch.Generator().manual_seed(seed)
    alive = torch.tensor([True, False])
    whole = Moments(2, 3)
    parts = [SharedMoments(Moments(2, 3), lambda x: x) for _ in range(2)]
    for _ in range(5):
        batches = [3.0 + 2.0 * torch.randn(2, 40, 3, generator=generator) for _ in parts]
        whole.update(torch.cat(batches, dim=1), alive)
        asked: list[torch.Tensor] = []

        def total(own: torch.Tensor, others=batches, asked=asked) -> torch.Tensor:
            """What an exchange gives: first counts and sums, then squares about the mean of all."""
            asked.append(own)
            if len(asked) == 1:
                counts = torch.full((2, 1), 80.0, dtype=torch.float64)
                return torch.cat((counts, sum(x.double().sum(1) for x in others)), dim=1)
            mean = sum(x.double().sum(1) for x in others) / 80.0
            return sum((x.double() - mean.unsqueeze(1)).square().sum(1) for x in others)

        for part, batch in zip(parts, batches, strict=True):
            asked.clear()
            part._total = total
            part.update(batch, alive)
    for part in parts:
        torch.testing.assert_close(part.mean, whole.mean, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(part.var, whole.var, atol=1e-6, rtol=1e-6)
        assert torch.equal(part.count, whole.count)


@pytest.mark.slow
def test_two_processes_take_the_same_steps_and_go_on_together(tmp_path):
    found = library()
    clips = [found.clip(place) for place in range(len(found.clips))]
    with LibraryWriter(tmp_path / "motions", head_for(found.robot, clips)) as writer:
        for clip in clips:
            writer.add(clip)
    config = tiny(
        f"motions.library={json.dumps(str(tmp_path / 'motions'))}",
        *("trainer.processes=2", "trainer.steps=480", "trainer.warm_up=1"),
    )
    runs = tmp_path / "runs"
    calls = iter([False, True])
    stopping = TrackingOptions(
        name="two", threads=1, evaluations=1, should_stop=lambda: next(calls, False)
    )
    first = train_tracker(config, runs, stopping)
    assert first.status == "stopped"
    done = resume_tracker(RunFolder(first.path), ignore, lambda: False)
    assert done.status == "completed" and done.path == first.path
    assert read_config(RunFolder(done.path)).trainer.processes == 2
    own, other = (
        load_tracker(next(path.glob("tracker_seed_1/checkpoints/tracker_240.pt")))
        for path in (done.path, runs / ".processes" / "two" / "process-1")
    )
    for a, b in zip(own.actor.views.actor, other.actor.views.actor, strict=True):
        assert torch.equal(a.weight, b.weight)
    assert all(map(torch.equal, own.actor.scaling, other.actor.scaling))
    seen: dict[str, list[list[float]]] = {"approx_kl": [], "episodic_return": []}
    for path in (done.path, runs / ".processes" / "two" / "process-1"):
        lines = RunFolder(path).members()[0].scalars.read_text().splitlines()
        for name, found_there in seen.items():
            found_there.append([json.loads(line).get(name) for line in lines])
    assert seen["approx_kl"][0] == seen["approx_kl"][1]
    assert seen["episodic_return"][0] != seen["episodic_return"][1]
