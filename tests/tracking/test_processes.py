"""Several processes that train one tracker: the same weights, from what all of them saw."""

import json

import pytest
import torch

from telic.core.events import ignore
from telic.motions.library import LibraryWriter, head_for
from telic.storage.layout import RunFolder
from telic.tracking.loop import resume_tracker
from telic.tracking.tracker import load_tracker
from telic.tracking.train import TrackingOptions, read_config, train_tracker
from tests.tracking.constructed import library, tiny


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
