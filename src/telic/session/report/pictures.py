"""Pictures of the best policy: its median episode as a video, poor, median and good as strips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from telic.authors.candidate import MemberScore
from telic.judges.verdict import Verdict
from telic.rendering import RenderJob, render
from telic.report.html import LARGEST_INLINE
from telic.storage.layout import IterationFolder, SessionFolder

_SHARES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_WORDS = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}


class Strip(NamedTuple):
    """Six moments of an episode."""

    path: Path
    words: str
    """which one it is"""
    score: float | None


class Pictures(NamedTuple):
    """What was drawn; missing where it could not be."""

    strips: tuple[Strip, ...] = ()
    video: Path | None = None
    inline: Path | None = None
    """a smaller one, where the video is too large for a page"""
    score: float | None = None
    """of the episode in the video"""


def draw_pictures(
    folder: SessionFolder, files: IterationFolder, member: MemberScore, note: Callable[[str], None]
) -> Pictures:
    """Draw the chosen episodes; what cannot be drawn is noted and left out."""
    verdicts = member.judgement.verdicts
    chosen = choose_episodes(verdicts)
    episodes = {label: files.episode(member.member, index) for label, index in chosen.items()}
    video = RenderJob(trajectory=episodes["median"], output=folder.report_dir / "median.mp4")
    strips = {
        label: RenderJob(trajectory=episode, output=folder.report_dir / f"strip_{label}.png")
        for label, episode in episodes.items()
    }
    drawn = _draw([video, *strips.values()], note)
    small: Path | None = None
    if video.output in drawn and video.output.stat().st_size > LARGEST_INLINE:
        small = folder.report_dir / "median_small.mp4"
        _draw([video.model_copy(update={"output": small, "width": 240, "fps": 12.0})], note)
    return Pictures(
        strips=tuple(
            Strip(job.output, _WORDS[label], verdicts[chosen[label]].score)
            for label, job in strips.items()
            if job.output in drawn
        ),
        video=video.output if video.output in drawn else None,
        inline=small,
        score=verdicts[chosen["median"]].score,
    )


def choose_episodes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return which episodes are the p10, the median and the p90 of the scores."""
    order = worst_first(verdicts)
    return {label: order[round(share * (len(order) - 1))] for label, share in _SHARES.items()}


def worst_first(verdicts: Sequence[Verdict]) -> list[int]:
    """Return the numbers of the episodes by score; those without one come first."""

    def place(index: int) -> tuple[bool, float]:
        score = verdicts[index].score
        return score is not None, score or 0.0

    return sorted(range(len(verdicts)), key=place)


def _draw(jobs: list[RenderJob], note: Callable[[str], None]) -> list[Path]:
    """Draw episodes and return the files; an old file must not pass for a new one."""
    for job in jobs:
        job.output.unlink(missing_ok=True)
    for rendering in render(jobs):
        if rendering.error:
            note(f"{rendering.output.name}: {rendering.error}")
    return [job.output for job in jobs if job.output.exists()]
