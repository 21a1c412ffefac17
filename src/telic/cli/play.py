"""telic play: watch a policy as a video."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telic.cli.options import RUNS, AsJson, Debug, MemberName, RunName, RunsDir
from telic.cli.output import command, print_facts, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("play")(command(play))


def play(
    run: RunName = "latest",
    member: MemberName = None,
    step: Annotated[int | None, typer.Option(help="Checkpoint; the best one if left out.")] = None,
    episode: Annotated[str, typer.Option(help="Recorded episode: p10, median or p90.")] = "median",
    seed: Annotated[
        int | None, typer.Option(help="Play a new episode from this seed instead.")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="side, front, top or three-quarter; default: what suits it.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Width x height in pixels, e.g. 640x480.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Video file to write.")] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Render an episode of a trained policy as an mp4."""
    from telic.storage.layout import find_run
    from telic.training.videos import play_run

    folder = find_run(runs_dir, run)
    made = play_run(
        folder, member=member, step=step, episode=episode, seed=seed, view=view, size=size, out=out
    )
    if as_json:
        print_json(made)
    else:
        print_facts(made)
