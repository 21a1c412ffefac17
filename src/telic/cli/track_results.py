"""How results of motion tracking are shown on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view

if TYPE_CHECKING:
    from telic.tracking.export import TrackerExport
    from telic.tracking.reports import TrackingReport
    from telic.verbs.track import (
        TokenSweep,
        TrackedRun,
        TrackerEvaluation,
        TrackSettings,
        WatchedRun,
    )


def _show_report(report: TrackingReport) -> None:
    rows = [
        (
            each.encoder,
            f"{each.success_rate:.1%}",
            f"{each.global_success_rate:.1%}",
            "" if each.interval is None else f"{each.interval[0]:.0%} - {each.interval[1]:.0%}",
            f"{each.progress_rate:.1%}",
            f"{each.mpjpe_l_mm:.1f}",
            f"{each.mpjpe_g_mm:.1f}",
            "" if each.velocity_m_s is None else f"{each.velocity_m_s:.3f}",
            "" if each.acceleration_m_s2 is None else f"{each.acceleration_m_s2:.2f}",
        )
        for each in (*report.encoders, *([report.control] if report.control else ()))
    ]
    clips = len({each.clip for each in report.clips})
    title = f"{report.member} after {report.step:,} steps, on {clips} clips ({report.split})"
    console.print(f"\n[bold]{title}[/]")
    heads = [
        "encoder",
        "success",
        "in place",
        "95 %",
        "played",
        "local mm",
        "global mm",
        "m/s",
        "m/s²",
    ]
    print_rows(heads, rows)
    pairs = [
        (f"{each.one} / {each.other}", f"{each.equal_share:.0%}", f"{each.chance or 0.0:.0%}")
        for each in report.agreement
        if each.equal_share is not None
    ]
    if pairs:
        print_rows(["tokens of", "equal codes", "by chance"], pairs)


@view
def show_tracked(run: TrackedRun) -> None:
    """Print how the members of a training follow clips they never saw."""
    for report in run.reports:
        _show_report(report)
    console.print(f"\nfolder  {run.path}", soft_wrap=True)
    if run.status != "completed":
        console.print(f"[bold]{run.status}[/]; the same command goes on")


@view
def show_tracker_evaluation(found: TrackerEvaluation) -> None:
    """Print the measures of a tracker, and the clips it follows worst."""
    _show_report(found.report)
    rows = [
        (each.clip, each.encoder, f"{each.progress:.0%}", f"{each.errors.mpjpe_l_mm:.1f}")
        for each in found.report.worst(5)
    ]
    console.print("\nworst")
    print_rows(["clip", "encoder", "played", "local mm"], rows)
    for path in found.files:
        console.print(path, soft_wrap=True)


@view
def show_token_sweep(found: TokenSweep) -> None:
    """Print a line per size of token."""
    rows = [
        (
            f"{each.numbers} x {each.levels}",
            f"{each.bits:.0f}",
            f"{each.used_bits:.0f}",
            f"{each.success_rate:.1%}",
            f"{each.global_success_rate:.1%}",
            f"{each.mpjpe_l_mm:.1f}",
            "" if each.agreement is None else f"{each.agreement:.0%}",
        )
        for each in found.points
    ]
    heads = ["numbers x levels", "bits", "used", "success", "in place", "local mm", "equal codes"]
    print_rows(heads, rows)
    console.print(f"\npage  {found.page}", soft_wrap=True)
    if not found.is_whole:
        console.print("[bold]stopped[/]; the same command goes on")


@view
def show_watched(run: WatchedRun) -> None:
    """Print a line per tracker of a run."""
    rows = [
        (
            each.member,
            f"{each.step:,}",
            "" if each.report is None else f"{each.report.success_rate:.1%}",
            each.error or "",
        )
        for each in run.trackers
    ]
    print_rows(["member", "step", "success", "error"], rows)


@view
def show_tracker_export(done: TrackerExport) -> None:
    """Print the files of a tracker and how exactly they act like it."""
    rows = [
        (each.name, f"{each.deviation:.1e}", each.compared, each.on_edge) for each in done.files
    ]
    print_rows(["file", "largest deviation", "rows compared", "on an edge"], rows)
    console.print(f"\nfolder  {done.folder}", soft_wrap=True)
    if done.robot is not None:
        console.print(f'telic run "walk forward" --env {done.robot}', soft_wrap=True)
    if (own := done.deployment) is not None:
        console.print(f"python {own.folder}/run.py", soft_wrap=True)
        console.print(
            f"follows {own.clip} in plain MuJoCo: joints {own.joint_rad:.3f} rad off, as telic "
            f"simulates it {own.joint_rad_here:.3f}; first steps {own.apart:.1e} apart"
        )


@view
def show_track_settings(found: TrackSettings) -> None:
    """Print every setting by its dotted name."""
    print_facts(found.settings)
