"""telic envs: what can be trained, and what each environment offers."""

from __future__ import annotations

from typing import Annotated

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("envs")(command(envs))


def envs(
    env: Annotated[
        str | None, typer.Argument(help="Describe this one: an id, module:Class or MJCF path.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also list Gymnasium's other ids.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List environments, or describe one: observations, actions, info values, bodies, reward."""
    from telic.envs.catalogue import catalogue, describe
    from telic.quantities.reference import environment_page

    if env is not None:
        if as_json:
            print_json(describe(env).model_dump(mode="json"))
        else:
            console.print(environment_page(env), markup=False, soft_wrap=True)
        return
    found = catalogue()
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    rows = [
        (each.id, each.obs_dim, each.act_dim, each.max_episode_steps, each.description)
        for each in found
        if every or each.fast
    ]
    columns = ["environment", "observed", "actions", "steps", "what it is"]
    console.print(table(None, columns, rows))
    console.print(
        "\nDescribe one: telic envs Ant-v5. Also: any Gymnasium id (--all), module:Class, robot.xml"
    )
