"""Adaptive sampling of initial states: pieces of clips are weighted by their failure rate.

Clips are cut into pieces of about a second. Each member counts the plays (E) and failures (F) of
each piece, with exponential decay per finished episode:

    rate_b = min(F_b / E_b, most * mean rate)
    p_b ~ len_b * ((1 - u) rate_b / mean rate + u)

A failure counts for the piece in which it occurred, before the next piece is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from telic.tracking.config import SamplingGroup

_PRIOR = 1.0
"""initial number of plays and failures of every piece, toward which counts decay"""


class Pieces(NamedTuple):
    """Concatenated pieces of all clips."""

    clip: Tensor
    """clip of each piece, (n,)"""
    start: Tensor
    """first frame of each piece, (n,)"""
    length: Tensor
    """number of frames in each piece, (n,)"""
    first: Tensor
    """first piece of each clip, (C,)"""
    pieces: Tensor
    """number of pieces in each clip, (C,)"""
    size: int
    """number of frames in a full piece"""

    def at(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Return the pieces that contain the given frames."""
        inside = (frame // self.size).clamp_min(0)
        return self.first[clip] + torch.minimum(inside, self.pieces[clip] - 1)


def cut(frames: Tensor, size: int) -> Pieces:
    """Cut clips with frame counts (C,) into pieces. The last piece of a clip may be shorter."""
    size = max(size, 1)
    count = (frames + size - 1) // size
    ends = count.cumsum(0)
    first = ends - count
    clip = torch.repeat_interleave(torch.arange(len(frames), device=frames.device), count)
    start = (torch.arange(len(clip), device=frames.device) - first[clip]) * size
    length = torch.minimum(frames[clip] - start, torch.full_like(start, size))
    return Pieces(clip, start, length, first, count, size)


class Counts(NamedTuple):
    """Statistics (P, n) of the pieces, with one row per member."""

    played: Tensor
    """number of full plays of a piece"""
    failed: Tensor
    """number of failures in the piece, or the accumulated error"""


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
    """Return the counts updated by one step.

    Args:
        counts: counts before this step.
        pieces: pieces of all clips.
        piece: piece of each environment in this step, (P, m).
        blame: value to add to the failures, which is 1 for a failure, (P, m).
        ended: whether the episode ended, (P, m) bool.
        half_life: half-life of the counts in episodes.
    """
    keep = torch.exp2(-ended.sum(1, keepdim=True).to(blame.dtype) / half_life)
    share = 1.0 / pieces.length[piece].to(blame.dtype)
    played = (_PRIOR + (counts.played - _PRIOR) * keep).scatter_add(1, piece, share)
    failed = (_PRIOR + (counts.failed - _PRIOR) * keep).scatter_add(1, piece, blame)
    return Counts(played, failed)


def chances(counts: Counts, pieces: Pieces, group: SamplingGroup) -> Tensor:
    """Return the sampling probabilities (P, n) of the pieces, which sum to 1."""
    rate = counts.failed / counts.played
    rate = torch.minimum(rate, group.most * rate.mean(1, keepdim=True))
    length = pieces.length.to(rate.dtype)
    hard = rate * length
    hard = hard / hard.sum(1, keepdim=True)
    return (1.0 - group.uniform) * hard + group.uniform * length / length.sum()


def draw(
    chance: Tensor, pieces: Pieces, u: Tensor, lead: int, least: int = 2
) -> tuple[Tensor, Tensor]:
    """Return initial clips and frames, determined by probabilities and uniform random numbers.

    Args:
        chance: sampling probabilities of the pieces, (P, n).
        pieces: pieces of all clips.
        u: uniform random numbers for the piece, its frame and the lead, (P, m, 3).
        lead: maximum number of frames by which an episode starts before its piece.
        least: minimum number of remaining frames of the clip.
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
    """Statistics of a member's initial-state distribution."""

    effective_share: float
    """effective fraction of pieces, 1 / (n sum p^2), which is 1 if uniform"""
    highest: float
    """largest probability relative to the uniform one"""
    failure_rate: float
    """mean failure rate over pieces"""


def coverage(counts: Counts, pieces: Pieces, group: SamplingGroup, member: int = 0) -> Coverage:
    """Return statistics of the initial-state distribution of a member."""
    p = chances(counts, pieces, group)[member]
    n = len(p)
    rate = (counts.failed / counts.played)[member]
    return Coverage((1.0 / p.square().sum()).item() / n, p.max().item() * n, rate.mean().item())
