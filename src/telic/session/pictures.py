"""Video and pictures of the policy that a session hands out.

The median episode is rendered as a video; a poor, the median and a good one as strips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.judges.verdict import Verdict
from telic.rendering import RenderJob, render
from telic.report.html import LARGEST_INLINE
from telic.storage.layout import IterationFolder, SessionFolder
from telic.storage.trajectories import Environment

_SHARES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_TITLES = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}


class Strip(NamedTuple):
    """Six frames of an episode."""

    path: Path
    title: str
    score: float | None


class Pictures(NamedTuple):
    """What was rendered; missing where it could not be."""

    strips: tuple[Strip, ...] = ()
    video: Path | None = None
    inline: Path | None = None
    """a smaller version, where the video is too large for a page"""
    score: float | None = None
    """of the episode in the video"""


def draw_pictures(
    folder: SessionFolder,
    files: IterationFolder,
    member: MemberScore,
    environment: Environment,
    note: Callable[[str], None],
    redraws: bool = True,
) -> Pictures:
    """Render the chosen episodes; what cannot be rendered is noted and left out.

    Existing files are kept unless `redraws`.
    """
    verdicts = member.judgement.verdicts
    chosen = choose_episodes(verdicts)
    env, env_args = environment

    def job(label: str, name: str) -> RenderJob:
        episode = files.episode(member.member, chosen[label])
        output = folder.report_dir / name
        return RenderJob(trajectory=episode, output=output, env=env, env_args=env_args)

    video = job("median", "median.mp4")
    strips = {label: job(label, f"strip_{label}.png") for label in chosen}
    drawn = _draw([video, *strips.values()], note, redraws)
    small: Path | None = None
    if video.output in drawn and video.output.stat().st_size > LARGEST_INLINE:
        small = folder.report_dir / "median_small.mp4"
        _draw(
            [video.model_copy(update={"output": small, "width": 240, "fps": 12.0})], note, redraws
        )
    return Pictures(
        strips=tuple(
            Strip(job.output, _TITLES[label], verdicts[chosen[label]].score)
            for label, job in strips.items()
            if job.output in drawn
        ),
        video=video.output if video.output in drawn else None,
        inline=small,
        score=verdicts[chosen["median"]].score,
    )


class PicturesAhead:
    """Renders the policy that passed in the background, while its evidence is certified.

    Leaving the context waits for the renderer: no other writer may touch the same files.
    """

    def __init__(
        self, folder: SessionFolder, env: str, candidate: RewardCandidate, passed: SessionIteration
    ) -> None:
        assert passed.best_member is not None  # a pass has a best policy
        self._passed, self._troubles = passed, list[str]()
        self._pool = ThreadPoolExecutor(1)
        self._drawing = self._pool.submit(
            draw_pictures,
            folder,
            folder.iteration(passed.number),
            passed.best_member,
            (env, candidate.env_args),
            self._troubles.append,
        )

    def are_of(self, best: SessionIteration | None) -> bool:
        """Wait, and say whether all pictures show the best policy of this iteration.

        A branch may hand out a policy of the session that it came from.
        """
        is_whole = self._drawing.exception() is None and not self._troubles
        return is_whole and best is self._passed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


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


def _draw(jobs: list[RenderJob], note: Callable[[str], None], redraws: bool) -> list[Path]:
    """Render episodes and return the files; stale files are deleted first."""
    missing = [job for job in jobs if redraws or not job.output.exists()]
    for job in missing:
        job.output.unlink(missing_ok=True)
    for rendering in render(missing) if missing else ():
        if rendering.error:
            note(f"{rendering.output.name}: {rendering.error}")
    return [job.output for job in jobs if job.output.exists()]
