"""telic quantities: what can be measured, with units and formulas."""

from __future__ import annotations

from typing import Annotated

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json, table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quantities")(command(quantities))


def quantities(
    env: Annotated[
        str | None, typer.Argument(help="Only those this environment has; all if left out.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List measured quantities for rewards and judges: quantities.forward_velocity(info)."""
    from telic.envs.catalogue import describe
    from telic.quantities.reference import describe_quantities

    found = describe_quantities(describe(env) if env else None)
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    rows = [(each.name, each.unit, each.formula) for each in found]
    console.print(table(None, ["quantity", "unit", "formula"], rows))
