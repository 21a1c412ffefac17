"""telic train: rewards x seeds, trained together."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, count, integers, pairs
from telic.cli.output import command, console, duration, number, print_facts, print_json, table
from telic.cli.progress import TrainingView
from telic.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from telic.training.job import TrainJob
    from telic.training.run import Run

_EXAMPLES = """
[bold]Examples[/]

telic train HalfCheetah-v5                                   its own reward, tuned settings

telic train HalfCheetah-v5 --reward reward.py --seeds 1,2,3  your reward, three seeds at once

telic train Ant-v5 -r a.py -r b.py --vary gamma=0.98,0.99    2 rewards x 2 settings = 4 policies

telic train robot.xml --reward walk.py --steps 2M hidden=128,128

Run the same command again to go on with an interrupted run. Settings: telic presets
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", epilog=_EXAMPLES)(command(train))
    app.command("presets")(command(presets))


def train(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV [key=value ...]", help="Environment, then changes of settings."
        ),
    ] = None,
    env: Annotated[
        str | None, typer.Option(help="Environment id, module:Class, or path of an MJCF file.")
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option(
            "--reward", "-r", help="Reward file; repeat to compare. None: the task's own."
        ),
    ] = None,
    steps: Annotated[str | None, typer.Option(help="Steps per member, e.g. 500k, 2M.")] = None,
    seeds: Annotated[str, typer.Option(help="Training seeds: 1,2,3 or 1-3.")] = "1",
    preset: Annotated[
        str, typer.Option(help="Settings to start from; see: telic presets")
    ] = "default",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: --set gamma=0.98; repeatable."),
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(help="Change a reward weight: --weight speed=2; repeatable.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Train each value as its own member: --vary gamma=0.98,0.99; repeatable."
        ),
    ] = None,
    env_arg: Annotated[
        list[str] | None,
        typer.Option(help="Constructor argument: --env-arg max_episode_steps=200; repeatable."),
    ] = None,
    evaluations: Annotated[int, typer.Option(min=1, help="Evaluations during training.")] = 4,
    eval_episodes: Annotated[int, typer.Option(min=1, help="Episodes per evaluation.")] = 10,
    videos: Annotated[
        str, typer.Option(help="best: p10, median, p90 of the best evaluation; last; all; none.")
    ] = "best",
    trainer: Annotated[
        str, typer.Option(help="telic, or sb3 (Stable-Baselines3 PPO, for comparison).")
    ] = "telic",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Physics threads; default all cores.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run folder.")] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew instead of going on.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="The reward is yours: skip the code allow-list.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option(help="Also write TensorBoard files.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the plan and stop.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Train a policy for every reward, variant and seed, all together in one process."""
    from telic.training.plan import plan

    chosen, overrides = _split(words or [], env)
    if videos not in ("best", "last", "all", "none"):
        raise ConfigError(f'--videos "{videos}" is not one of best, last, all, none.')
    rewards = list(reward or [])
    job = plan(
        chosen,
        rewards=rewards or [None],
        steps=count(steps, "--steps") if steps else None,
        seeds=integers(seeds, "--seeds"),
        preset=preset,
        overrides=[*(set_ or []), *overrides],
        weights=pairs(weight or [], "--weight"),
        variants=_variants(vary or []),
        env_args=pairs(env_arg or [], "--env-arg"),
        trusted=trust,
        evaluations=evaluations,
        eval_episodes=eval_episodes,
        device=device,
        threads=threads,
        tensorboard=tensorboard,
    )
    if dry_run:
        _print_plan(job, as_json)
        return
    if trainer == "sb3":
        from telic.training.sb3 import execute_sb3 as execute
    elif trainer == "telic":
        from telic.training.run import execute
    else:
        raise ConfigError(f'--trainer "{trainer}" is not known.', hint="Use telic or sb3.")
    with interruptible() as stop, TrainingView(quiet=as_json) as view:
        run = execute(
            job,
            runs_dir,
            name=name,
            fresh=fresh,
            on_event=view,
            should_stop=stop,
            command=shlex.join(["telic", *sys.argv[1:]]),
        )
        finish(run, videos, view, as_json)


def presets(
    env: Annotated[str | None, typer.Argument(help="Environment; all of them if left out.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the settings that training starts from."""
    from telic.training.presets import PRESETS, preset

    envs = [env] if env else sorted({name for each in PRESETS.values() for name in each})
    found = {name: {each: preset(name, each) for each in envs} for name in PRESETS}
    if as_json:
        print_json(
            {name: {e: p.model_dump() for e, p in each.items()} for name, each in found.items()}
        )
        return
    for name, each in found.items():
        names = list(next(iter(each.values())).settings.model_dump())
        rows = [
            (field, *(_setting(getattr(p.settings, field)) for p in each.values()))
            for field in names
        ]
        rows.insert(0, ("steps", *(f"{p.steps:,}" for p in each.values())))
        short = [e.removesuffix("-v5") for e in each]
        console.print(table(f"preset {name}", ["setting", *short], rows))
        console.print()


def _setting(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _split(words: list[str], env: str | None) -> tuple[str, list[str]]:
    """Tell the environment from `key=value` words."""
    overrides = [word for word in words if "=" in word]
    rest = [word for word in words if "=" not in word]
    if env:
        rest.append(env)
    if len(rest) != 1:
        raise UsageError(
            "Which environment?"
            if not rest
            else f"Expected one environment, not {' and '.join(rest)}.",
            hint="For example: telic train HalfCheetah-v5. See all with: telic envs",
        )
    return rest[0], overrides


def _variants(given: list[str]) -> list[dict[str, Any]]:
    """Cross all --vary options."""
    variants: list[dict[str, Any]] = [{}]
    for name, values in pairs(given, "--vary").items():
        choices = values if isinstance(values, list) else [values]
        variants = [{**each, name: choice} for each in variants for choice in choices]
    return variants


def _print_plan(job: TrainJob, as_json: bool) -> None:
    if as_json:
        print_json(job.model_dump(mode="json"))
        return
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


@contextmanager
def interruptible() -> Iterator[Any]:
    """Make the first Ctrl-C a polite stop and the second one immediate."""
    asked = False

    def handle(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        console.print("\nstopping after this update (Ctrl-C again: now) ...")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    except KeyboardInterrupt:
        console.print("stopped. Run the same command again to go on from the last save.")
        raise typer.Exit(1) from None
    finally:
        signal.signal(signal.SIGINT, previous)


def finish(run: Run, videos: str, view: TrainingView, as_json: bool) -> None:
    """Render, then print what was learned, how good it is and where everything is."""
    from telic.training.videos import render_run

    made: list[Path] = []
    if run.status == "completed" and videos != "none":
        made = render_run(run.path, which=videos, on_event=view)
    if as_json:
        print_json({**run.summary, "path": str(run.path), "videos": [str(each) for each in made]})
    else:
        _print_result(run, made)
    if run.status != "completed":
        raise typer.Exit(1)


def _print_result(run: Run, made: list[Path]) -> None:
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
            "video": next((each for each in made if "median" in each.name), None),
        }
    )
    name = run.path.name
    if summary["status"] == "completed":
        console.print(f"\nnext: telic show {name}   telic play {name}   telic export {name}")
    elif is_resumable(RunFolder(run.path)):
        console.print(f"\ngo on with: telic resume {name}")
