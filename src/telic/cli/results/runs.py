"""Training runs, policies, plans and presets on a terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.output import console, print_facts, table, view
from telic.core.text import duration, number, sparkline

if TYPE_CHECKING:
    from telic.cli.terminal import CommandLine
    from telic.training.job import TrainJob
    from telic.training.run import Run
    from telic.verbs.things import EpisodeVideo, ExportedPolicy, RunPage
    from telic.verbs.train import PresetTable, TrainingRuns


@view
def show_run(run: Run) -> None:
    """Print what was learned, how good it is and where everything is."""
    from telic.storage.layout import RunFolder
    from telic.training.run import is_resumable

    summary = run.summary
    console.print()
    print_facts(
        {
            "run": run.path,
            "status": summary["status"],
            **_best_facts(run.path),
            "steps": f"{summary['total_timesteps']:,}",
            "time": duration(summary["training_time_s"]),
            "steps per second": number(summary["steps_per_second"]),
            "video": next((video for video in run.videos if "median" in video.name), None),
        }
    )
    name = run.path.name
    if summary["status"] == "completed":
        console.print(f"\nnext: telic show {name}   telic play {name}   telic export {name}")
    elif is_resumable(RunFolder(run.path)):
        console.print(f"\ngo on with: telic resume {name}")


@view
def show_plan(job: TrainJob) -> None:
    """Print what would be trained."""
    print_facts(
        {
            "environment": job.env,
            "members": len(job.members),
            "steps each": f"{job.iterations * job.settings.batch_size:,}",
            "environments": job.settings.num_envs * len(job.members),
            "evaluations": f"{job.evaluations} x {job.eval_episodes} episodes",
        }
    )
    console.print(table(None, ["member"], [[member.name] for member in job.members]))


@view
def show_runs(found: TrainingRuns) -> None:
    """Print a line per run."""
    if not found.runs:
        console.print(f"No runs in {found.runs_dir}. Make one with: telic train HalfCheetah-v5")
        return
    rows = [
        (
            run["run"],
            run["env"],
            run["status"],
            run["members"],
            run["total_timesteps"],
            run["best_return"],
            duration(time.time() - run["updated"]) + " ago",
        )
        for run in found.runs
    ]
    columns = ["run", "environment", "state", "members", "steps", "best return", "active"]
    console.print(table(None, columns, rows))


@view
def show_run_page(page: RunPage) -> None:
    """Print a run with its members."""
    facts = page.facts
    print_facts(
        {
            "run": facts["path"],
            "environment": facts["env"],
            "state": facts["status"],
            "steps": f"{facts['total_timesteps']:,}" if facts["total_timesteps"] else None,
            "time": duration(facts["training_time_s"]),
            "error": facts["error"],
        }
    )
    for member in page.members:
        _print_member(member, page.is_single)
    if not page.is_single:
        _print_comparison(page.members)


@view
def show_command_line(made: CommandLine) -> None:
    """Print the command that made something, and nothing else."""
    print(made.command)


@view
def show_video(video: EpisodeVideo) -> None:
    """Print where the video is."""
    print_facts(video.facts)


@view
def show_export(exported: ExportedPolicy) -> None:
    """Print what the bundle holds."""
    console.print("exported and verified")
    print_facts(exported.facts)


@view
def show_presets(found: PresetTable) -> None:
    """Print a table per preset."""
    for name, by_env in found.presets.items():
        fields = list(next(iter(by_env.values())).settings.model_dump())
        rows = [
            (field, *(_setting(getattr(preset.settings, field)) for preset in by_env.values()))
            for field in fields
        ]
        rows.insert(0, ("steps", *(f"{preset.steps:,}" for preset in by_env.values())))
        short = [env.removesuffix("-v5") for env in by_env]
        console.print(table(f"preset {name}", ["setting", *short], rows))
        console.print()


def _setting(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _print_member(member: dict[str, Any], single: bool) -> None:
    console.print(f"\n[bold]{escape(member['member'])}[/]  {sparkline(member['curve'])}")
    if not single:
        return
    rows = [
        (
            each["global_step"],
            each["mean_return"],
            _interval(each["interval"]),
            each["p10_return"],
            each["median_return"],
            each["p90_return"],
            each["episode_length"],
        )
        for each in member["evaluations"]
    ]
    columns = ["steps", "return", "95 % interval", "p10", "median", "p90", "length"]
    console.print(table(None, columns, rows))
    reward = member["reward"]
    if reward and reward.get("latex"):
        console.print(f"\nreward: {escape(reward['latex'])}")
    for term in (reward or {}).get("terms", []):
        console.print(f"  {escape(term['name'])}: {escape(term.get('description') or '')}")
    for finding in (member["summary"] or {}).get("findings", []):
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


def _print_comparison(members: list[dict[str, Any]]) -> None:
    rows = []
    for each in members:
        best = (each["summary"] or {}).get("best") or {}
        rows.append(
            (
                each["member"],
                best.get("mean_return"),
                _interval(best.get("interval")),
                best.get("env_return"),
                best.get("episode_length"),
                best.get("global_step"),
            )
        )
    console.print()
    columns = ["member", "return", "95 % interval", "task return", "length", "at step"]
    console.print(table(None, columns, rows))


def _interval(interval: list[float] | None) -> str:
    return f"{number(interval[0])} … {number(interval[1])}" if interval else "–"


def _best_facts(path: Path) -> dict[str, Any]:
    """Return what to say about the best member of a run."""
    from telic.storage.files import read_json
    from telic.storage.layout import RunFolder
    from telic.training.run import best_member

    run = RunFolder(path)
    folder = best_member(run)
    if folder is None or not folder.summary.exists():
        return {}
    best = read_json(folder.summary)["best"]
    if best is None:
        return {"best": folder.name}
    spread = _interval(best["interval"])
    return {
        "best": folder.name if len(run.members()) > 1 else None,
        "return": f"{number(best['mean_return'])} (95 % interval {spread}, {best['episodes']} "
        f"fresh episodes, at {best['global_step']:,} steps)",
        "episode length": number(best["episode_length"]),
    }
