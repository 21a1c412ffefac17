"""Initial states of episodes: pieces of clips, sampled more often where episodes fail.

Clips are cut into pieces of about a second. A member counts how much each piece was played (E) and
how often it failed there (F), and forgets both with every episode that ends:

    rate_b = min(F_b / E_b, most * mean rate)
    p_b ~ len_b * ((1 - u) rate_b / mean rate + u)

A failure is charged to the piece in which it happened, before the next piece is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from telic.tracking.config import SamplingGroup

_PRIOR = 1.0
"""plays and failures that every piece begins with, and is drawn back to"""


class Pieces(NamedTuple):
    """The pieces of all clips, one after the other."""

    clip: Tensor
    """(n,) clip of the piece"""
    start: Tensor
    """(n,) its first frame"""
    length: Tensor
    """(n,) frames"""
    first: Tensor
    """(C,) the first piece of each clip"""
    pieces: Tensor
    """(C,) number of pieces of each clip"""
    size: int
    """frames of a whole piece"""

    def at(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Return the pieces in which frames lie."""
        inside = (frame // self.size).clamp_min(0)
        return self.first[clip] + torch.minimum(inside, self.pieces[clip] - 1)


def cut(frames: Tensor, size: int) -> Pieces:
    """Cut clips of so many frames, (C,), into pieces; the last ones are what is left."""
    size = max(size, 1)
    count = (frames + size - 1) // size
    ends = count.cumsum(0)
    first = ends - count
    clip = torch.repeat_interleave(torch.arange(len(frames), device=frames.device), count)
    start = (torch.arange(len(clip), device=frames.device) - first[clip]) * size
    length = torch.minimum(frames[clip] - start, torch.full_like(start, size))
    return Pieces(clip, start, length, first, count, size)


class Counts(NamedTuple):
    """Statistics of the pieces per member, each (P, n)."""

    played: Tensor
    """times that a piece was played through"""
    failed: Tensor
    """times that it failed there, or the error that was made"""


def fresh_counts(pieces: Pieces, members: int) -> Counts:
    """Return initial counts, equal for all pieces."""
    shape = members, len(pieces.clip)
    one = torch.full(shape, _PRIOR, device=pieces.clip.device)
    return Counts(one, one.clone())


def counted(
    counts: Counts,
    pieces: Pieces,
    piece: Tensor,
    blame: Tensor,
    ended: Tensor,
    half_life: float,
) -> Counts:
    """Return the counts after one more step.

    Args:
        counts: so far.
        pieces: the pieces.
        piece: (P, m) where each environment was in this step.
        blame: (P, m) what it did wrong there: 1 for a failure.
        ended: (P, m) bool, whose episode ended.
        half_life: episodes after which half is forgotten.
    """
    keep = torch.exp2(-ended.sum(1, keepdim=True).to(blame.dtype) / half_life)
    share = 1.0 / pieces.length[piece].to(blame.dtype)
    played = (_PRIOR + (counts.played - _PRIOR) * keep).scatter_add(1, piece, share)
    failed = (_PRIOR + (counts.failed - _PRIOR) * keep).scatter_add(1, piece, blame)
    return Counts(played, failed)


def chances(counts: Counts, pieces: Pieces, group: SamplingGroup) -> Tensor:
    """Return how likely an episode is to aim at each piece, (P, n), which sum to 1."""
    rate = counts.failed / counts.played
    rate = torch.minimum(rate, group.most * rate.mean(1, keepdim=True))
    length = pieces.length.to(rate.dtype)
    hard = rate * length
    hard = hard / hard.sum(1, keepdim=True)
    return (1.0 - group.uniform) * hard + group.uniform * length / length.sum()


def draw(
    chance: Tensor, pieces: Pieces, u: Tensor, lead: int, least: int = 2
) -> tuple[Tensor, Tensor]:
    """Return clips and frames where episodes begin, a function of chances and uniform numbers.

    Args:
        chance: (P, n) of pieces.
        pieces: the pieces.
        u: (P, m, 3) for the piece, the place in it, and how much earlier.
        lead: most frames by which an episode begins before its piece.
        least: frames that must be left of a clip.
    """
    edge = chance.cumsum(1)
    picked = torch.searchsorted(edge, (u[..., 0] * edge[:, -1:]).contiguous(), right=True)
    picked = picked.clamp_max(chance.shape[1] - 1)
    clip, length = pieces.clip[picked], pieces.length[picked].to(u.dtype)
    frame = pieces.start[picked] + (u[..., 1] * length).long() - (u[..., 2] * (lead + 1)).long()
    last = pieces.start + pieces.length
    ends = last[pieces.first + pieces.pieces - 1][clip]
    return clip, torch.minimum(frame, ends - least).clamp_min(0)


class Coverage(NamedTuple):
    """Distribution of a member's initial states."""

    effective_share: float
    """1 / sum p^2 over the number of pieces: 1 is even"""
    highest: float
    """largest chance in units of the even one"""
    failure_rate: float
    """mean over pieces"""


def coverage(counts: Counts, pieces: Pieces, group: SamplingGroup, member: int = 0) -> Coverage:
    """Measure how evenly a member's initial states are distributed."""
    p = chances(counts, pieces, group)[member]
    n = len(p)
    rate = (counts.failed / counts.played)[member]
    return Coverage((1.0 / p.square().sum()).item() / n, p.max().item() * n, rate.mean().item())
