"""Where episodes begin: attribution, forgetting, coverage."""

import pytest
import torch

from telic.tracking.config import SamplingGroup
from telic.tracking.sampler import chances, counted, coverage, cut, draw, fresh_counts

PIECES = cut(torch.tensor([120, 50, 230]), 50)
GROUP = SamplingGroup(uniform=0.1, most=200.0, half_life=1000.0)


def played(counts, piece, blame, ended, half_life=1e9):
    rows = [torch.tensor([each]) for each in (piece, blame, ended)]
    return counted(counts, PIECES, rows[0], rows[1].float(), rows[2].bool(), half_life)


def test_clips_are_cut_whole():
    assert PIECES.length.tolist() == [50, 50, 20, 50, 50, 50, 50, 50, 30]
    assert PIECES.clip.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    clip, frame = torch.tensor([0, 0, 0, 1, 2, 2]), torch.tensor([0, 99, 119, 49, 229, 999])
    assert PIECES.at(clip, frame).tolist() == [0, 1, 2, 3, 8, 8]


def test_at_first_every_frame_is_as_likely():
    chance = chances(fresh_counts(PIECES, 1), PIECES, GROUP)[0]
    torch.testing.assert_close(chance, PIECES.length / 400.0)


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


def test_steps_without_an_end_forget_nothing():
    counts = played(fresh_counts(PIECES, 1), [3], [8.0], [True], half_life=1e9)
    for _ in range(10):
        counts = played(counts, [0], [0.0], [False], half_life=1.0)
    assert float(counts.failed[0, 3]) == pytest.approx(9.0)


def test_no_piece_is_given_up_and_none_takes_all():
    counts = fresh_counts(PIECES, 1)
    counts.failed[0, 2] = 1e9
    chance = chances(counts, PIECES, GROUP)[0]
    floor = 0.1 * PIECES.length / 400.0
    assert bool((chance >= floor * 0.999).all())
    assert float(chance.sum()) == pytest.approx(1.0, abs=1e-5)
    assert coverage(counts, PIECES, GROUP).effective_share < 0.2
    assert coverage(fresh_counts(PIECES, 1), PIECES, GROUP).highest < 1.2


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


@pytest.mark.parametrize("lead", [1, 30, 500])
def test_an_episode_may_begin_before_its_piece_but_in_its_clip(lead):
    u = torch.rand(1, 5000, 3, generator=torch.Generator().manual_seed(1))
    chance = torch.zeros(1, 9)
    chance[0, 6] = 1.0
    begun = draw(chance, PIECES, u, lead=lead)
    assert bool((begun.clip == 2).all())
    assert int(begun.frame.min()) == max(0, 100 - lead)
    assert int(begun.frame.max()) >= 140


def test_the_last_number_below_one_is_still_a_piece():
    u = torch.full((1, 1, 3), 1.0 - 1e-7)
    begun = draw(chances(fresh_counts(PIECES, 1), PIECES, GROUP), PIECES, u, lead=0)
    assert int(begun.clip) == 2
