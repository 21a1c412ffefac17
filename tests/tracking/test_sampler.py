"""Where episodes begin: attribution, forgetting, coverage."""

import pytest
import torch

from telic.tracking.config import SamplingGroup
from telic.tracking.sampler import chances, counted, cut, draw, fresh_counts

PIECES = cut(torch.tensor([120, 50, 230]), 50)
GROUP = SamplingGroup(uniform=0.1, most=200.0, half_life=1000.0)


def played(counts, piece, blame, ended, half_life=1e9):
    rows = [torch.tensor([each]) for each in (piece, blame, ended)]
    return counted(counts, PIECES, rows[0], rows[1].float(), rows[2].bool(), half_life)


@pytest.mark.parametrize("culprit", range(9))
def test_the_piece_that_fails_becomes_the_likeliest(culprit):
    counts = fresh_counts(PIECES, 1)
    for _ in range(20):
        for piece in range(9):
            counts = played(counts, [piece], [float(piece == culprit)], [piece == culprit])
    weight = chances(counts, PIECES, GROUP)[0] / PIECES.length
    assert int(weight.argmax()) == culprit


def test_members_count_for_themselves():
    counts = fresh_counts(PIECES, 2)
    piece = torch.tensor([[4], [0]])
    counts = counted(counts, PIECES, piece, torch.tensor([[1.0], [0.0]]), piece > 0, 1e9)
    assert counts.failed[:, 4].tolist() == [2.0, 1.0]


def test_what_was_is_forgotten_by_half_every_so_many_episodes():
    counts = played(fresh_counts(PIECES, 1), [3], [8.0], [True], half_life=1e9)
    for _ in range(10):
        counts = played(counts, [0], [0.0], [True], half_life=10.0)
    assert float(counts.failed[0, 3]) == pytest.approx(1.0 + 4.0, rel=1e-3)


def test_draws_follow_the_chances_and_lie_in_the_clips():
    counts = fresh_counts(PIECES, 1)
    counts.failed[0, 5] = 30.0
    chance = chances(counts, PIECES, GROUP)
    u = torch.rand(1, 40_000, 3, generator=torch.Generator().manual_seed(0))
    begun = draw(chance, PIECES, u, lead=0)
    ends = torch.tensor([120, 50, 230])
    assert bool((begun.frame >= 0).all() and (begun.frame <= ends[begun.clip] - 2).all())
    share = torch.bincount(PIECES.at(begun.clip, begun.frame)[0], minlength=9) / 40_000
    torch.testing.assert_close(share, chance[0], atol=0.01, rtol=0.05)
