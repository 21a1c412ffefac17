"""Episode statistics across batch borders, against a plain loop."""

import torch

from telic.training.rollout import Batch, EpisodeTracker


def batch(rewards: torch.Tensor, done: torch.Tensor) -> Batch:
    terms = torch.stack((rewards, 2 * rewards), dim=-1)
    return Batch(*[rewards] * 4, rewards, terms, done, done, None)  # type: ignore[arg-type]


def test_episodes_that_span_batches_are_counted_whole():
    generator = torch.Generator().manual_seed(3)
    tracker = EpisodeTracker(2, 3, 2, "cpu")
    expected: list[list[tuple[float, int]]] = [[], []]
    running, length = torch.zeros(2, 3), torch.zeros(2, 3)
    for _ in range(4):
        rewards = torch.rand(5, 2, 3, generator=generator)
        done = torch.rand(5, 2, 3, generator=generator) < 0.25
        ended = tracker.update(batch(rewards, done))
        assert ended == done.sum((0, 2)).tolist()
        for member in range(2):
            for t in range(5):
                running[member] += rewards[t, member]
                length[member] += 1
                for env in done[t, member].nonzero().flatten().tolist():
                    expected[member].append((running[member, env].item(), int(length[member, env])))
                    running[member, env] = length[member, env] = 0
    for member in range(2):
        ours = tracker.recent[member]
        assert tracker.finished[member] == len(expected[member])
        assert [each.length for each in ours] == [n for _, n in expected[member]][-20:]
        for each, (total, _) in zip(ours, expected[member][-20:], strict=True):
            torch.testing.assert_close(each.total, total, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(each.terms[1], 2 * total, rtol=1e-5, atol=1e-5)


def test_unfinished_episodes_survive_saving():
    tracker, other = EpisodeTracker(1, 1, 2, "cpu"), EpisodeTracker(1, 1, 2, "cpu")
    ongoing = torch.zeros(2, 1, 1, dtype=torch.bool)
    tracker.update(batch(torch.ones(2, 1, 1), ongoing))
    other.load_state_dict(tracker.state_dict())
    other.update(batch(torch.ones(2, 1, 1), torch.ones(2, 1, 1, dtype=torch.bool)))
    assert [(each.total, each.length) for each in other.recent[0]] == [(3.0, 3), (1.0, 1)]
