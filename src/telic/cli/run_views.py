"""Training runs, plans and presets on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telic.cli.output import console, duration, number, print_facts, table, view

if TYPE_CHECKING:
    from telic.training.job import TrainJob
    from telic.training.run import Run
    from telic.verbs.train import PresetTable


@view
def show_run(run: Run) -> None:
    """Print what was learned, how good it is and where everything is."""
    from telic.cli.show import best_facts
    from telic.storage.layout import RunFolder
    from telic.training.run import is_resumable

    summary = run.summary
    console.print()
    print_facts(
        {
            "run": run.path,
            "status": summary["status"],
            **best_facts(run.path),
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
