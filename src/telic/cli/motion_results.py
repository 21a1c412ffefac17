"""Motions on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.verbs.motions import MotionIntake, MotionList, MotionPage, MotionVideo

_SHOWN = 40
_MARKS = {"added": "[green]✓[/]", "there already": "•", "left out": "[yellow]•[/]"}


@view
def show_motion_list(found: MotionList) -> None:
    """Print a line per clip."""
    rows = [
        (
            *(line.clip, line.seconds, line.fps, line.split, line.licence),
            *("yes" if line.has_human else "no", line.source),
        )
        for line in found.clips
    ]
    columns = ["clip", "seconds", "fps", "split", "licence", "human", "source"]
    print_rows(columns, rows, title=f"motions of {found.robot}")
    left = found.total - len(found.clips)
    more = f"; {left:,} more (--most)" if left else ""
    console.print(f"\n{found.total:,} clips, {number(found.hours * 60)} minutes{more}")
    console.print("See one: telic motions play CLIP")


@view
def show_motion_page(page: MotionPage) -> None:
    """Print what is known of a clip."""
    facts = {key: value for key, value in page._asdict().items() if key != "measured"}
    print_facts({key: value for key, value in facts.items() if value not in ((), [], {}, None)})
    print_rows(["measured", "value"], [*page.measured.items()])
    if page.reasons:
        console.print("[yellow]•[/] it should not be trained on: " + "; ".join(page.reasons))


@view
def show_motion_video(video: MotionVideo) -> None:
    """Print where the video is."""
    console.print(f"{escape(video.clip)}, {video.seconds:g} s: {video.output}", soft_wrap=True)


@view
def show_motion_intake(intake: MotionIntake) -> None:
    """Print what was not added, with why, and the numbers."""
    wrong = [line for line in intake.lines if line.outcome not in ("added", "there already")]
    for line in wrong[:_SHOWN]:
        mark = _MARKS.get(line.outcome, "[red]✗[/]")
        console.print(
            f"{mark} {escape(line.clip)} {line.outcome}: {escape(line.why)}", soft_wrap=True
        )
    if len(wrong) > _SHOWN:
        console.print(f"… and {len(wrong) - _SHOWN:,} more; all of them with --json")
    slid = [
        (line.slid_before_m_s, line.slid_after_m_s)
        for line in intake.lines
        if line.slid_before_m_s is not None and line.slid_after_m_s is not None
    ]
    if slid:
        before, after = (sum(each) / len(slid) for each in zip(*slid, strict=True))
        console.print(
            f"feet that stand slid at {number(before)} m/s before, and at {number(after)} m/s now"
        )
    counts = ", ".join(f"{count:,} {what}" for what, count in intake.counts.items())
    console.print(f"{counts or 'nothing'}: {escape(intake.library)}", soft_wrap=True)
