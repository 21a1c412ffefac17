"""Video and pictures of the policy that a session hands out.

The median episode is rendered as a video; a poor, the median and a good one as strips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telic.authors.candidate import MemberScore
from telic.judges.verdict import Verdict
from telic.rendering import RenderJob, render
from telic.report.html import LARGEST_INLINE
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import Environment

_SHARES = {"p10": 0.1, "median": 0.5, "p90": 0.9}


def draw_pictures(
    folder: SessionFolder,
    number: int,
    member: MemberScore,
    where: Environment,
    note: Callable[[str], None],
    redraws: bool = True,
) -> None:
    """Render median.mp4 and a strip_*.png per chosen episode; failures are noted.

    A video that is too large for a page also gets a smaller version, median_small.mp4. Existing
    files are kept unless `redraws`.
    """
    chosen = choose_episodes(member.judgement.verdicts)
    env, env_args = where

    def job(label: str, name: str) -> RenderJob:
        episode = folder.iteration(number).episode(member.member, chosen[label])
        output = folder.report_dir / name
        return RenderJob(trajectory=episode, output=output, env=env, env_args=env_args)

    def draw(jobs: Sequence[RenderJob]) -> None:
        missing = [each for each in jobs if redraws or not each.output.exists()]
        for each in missing:
            each.output.unlink(missing_ok=True)  # a stale file must not stand in for a failure
        for rendering in render(missing) if missing else ():
            if rendering.error:
                note(f"{rendering.output.name}: {rendering.error}")

    video = job("median", "median.mp4")
    smaller = {"output": folder.report_dir / "median_small.mp4", "width": 240, "fps": 12.0}
    small = video.model_copy(update=smaller)
    draw([video, *(job(label, f"strip_{label}.png") for label in chosen)])
    if video.output.exists() and video.output.stat().st_size > LARGEST_INLINE:
        draw([small])
    else:
        small.output.unlink(missing_ok=True)


def choose_episodes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the indices of the p10, median and p90 episodes by score."""
    order = worst_first(verdicts)
    return {label: order[round(share * (len(order) - 1))] for label, share in _SHARES.items()}


def worst_first(verdicts: Sequence[Verdict]) -> list[int]:
    """Return the indices of episodes by score; those without one come first."""

    def place(index: int) -> tuple[bool, float]:
        score = verdicts[index].score
        return score is not None, score or 0.0

    return sorted(range(len(verdicts)), key=place)
