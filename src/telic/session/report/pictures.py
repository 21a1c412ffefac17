"""Pictures of the best policy: its median episode as a video, poor, median and good as strips."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from telic.authors.candidate import MemberScore
from telic.judges.verdict import Verdict
from telic.rendering import RenderJob, render
from telic.session.report.troubles import Troubles
from telic.storage.layout import IterationFolder, SessionFolder

_SHARES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_WORDS = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}
LARGEST_INLINE = 1_500_000
"""bytes of a video inside the page; a longer one is drawn again, smaller"""
_SMALL = {"width": 240, "fps": 12.0, "caption": True}


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
    """the video, or a smaller one, that fits into a page"""
    score: float | None = None
    """of the episode in the video"""


def draw_pictures(
    folder: SessionFolder, files: IterationFolder, member: MemberScore, troubles: Troubles
) -> Pictures:
    """Draw the chosen episodes; what cannot be drawn is noted and left out."""
    verdicts = member.judgement.verdicts
    chosen = choose_episodes(verdicts)
    episodes = {label: files.episode(member.member, index) for label, index in chosen.items()}
    made = folder.report_dir
    video, small = made / "median.mp4", made / "median_small.mp4"
    strips = {label: made / f"strip_{label}.png" for label in chosen}
    wanted = [(episodes[label], path) for label, path in strips.items()]
    _draw([(episodes["median"], video), *wanted], troubles)
    inline = video
    if video.exists() and video.stat().st_size > LARGEST_INLINE:
        _draw([(episodes["median"], small)], troubles, **_SMALL)
        inline = small
    fits = inline.exists() and inline.stat().st_size <= LARGEST_INLINE
    return Pictures(
        strips=tuple(
            Strip(path, _WORDS[label], verdicts[chosen[label]].score)
            for label, path in strips.items()
            if path.exists()
        ),
        video=video if video.exists() else None,
        inline=inline if fits else None,
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


def data_uri(path: Path) -> str:
    """Return a picture or video as text that a page can hold."""
    kind = {".png": "image/png", ".mp4": "video/mp4"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _draw(pairs: list[tuple[Path, Path]], troubles: Troubles, **settings: object) -> None:
    """Draw episodes into files; an old file must not pass for a new one."""
    for _, output in pairs:
        output.unlink(missing_ok=True)
    jobs = [RenderJob(trajectory=episode, output=output, **settings) for episode, output in pairs]  # type: ignore[arg-type]
    for made in render(jobs):
        if made.error:
            troubles.note(f"{made.output.name}: {made.error}")
