"""Video and pictures of the policy that a session delivers."""

from __future__ import annotations

from collections.abc import Callable

from telic.authors.candidate import MemberScore
from telic.rendering import RenderJob, render
from telic.report.html import LARGEST_INLINE
from telic.session.labels import choose_episodes
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import Environment


def draw_pictures(
    folder: SessionFolder,
    number: int,
    member: MemberScore,
    where: Environment,
    note: Callable[[str], None],
    redraws: bool = True,
) -> None:
    """Render median.mp4 and strips of the p10, median and p90 episodes; failures are noted.

    A video that is too large for a page also gets a smaller version, median_small.mp4. Existing
    files are kept unless `redraws`.
    """
    jobs: dict[str, RenderJob] = {}
    for label, index in choose_episodes(member.judgement.verdicts).items():
        names = [f"strip_{label}.png"]
        names += ["median.mp4", "median_small.mp4"] if label == "median" else []
        for name in names:
            jobs[name] = RenderJob(
                trajectory=folder.iteration(number).episode(member.member, index),
                output=folder.report_dir / name,
                env=where[0],
                env_args=where[1],
            )
    small = jobs.pop("median_small.mp4").model_copy(update={"width": 240, "fps": 12.0})
    video = jobs["median.mp4"].output

    def draw(*wanted: RenderJob) -> None:
        missing = [each for each in wanted if redraws or not each.output.exists()]
        for each in missing:
            each.output.unlink(missing_ok=True)  # a stale file must not hide a failure
        for rendering in render(missing) if missing else ():
            if rendering.error:
                note(f"{rendering.output.name}: {rendering.error}")

    draw(*jobs.values())
    if video.exists() and video.stat().st_size > LARGEST_INLINE:
        draw(small)
    else:
        small.output.unlink(missing_ok=True)
