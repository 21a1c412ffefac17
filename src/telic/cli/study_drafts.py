"""How a candidate is written on the command line: a draft file, and options laid over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli.options import integers, pairs
from telic.errors import ConfigError

if TYPE_CHECKING:
    from telic.studies.candidate_files import Attachments

Draft = Annotated[
    Path | None, typer.Option(help="YAML or JSON with parts of the candidate; options win.")
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Parameter: path=value.")]
Was = Annotated[list[str] | None, typer.Option("--was", help="Its value before: path=value.")]
Patch = Annotated[Path | None, typer.Option(help="Unified diff against the base commit.")]
Files = Annotated[
    list[str] | None, typer.Option("--file", help="New content: path/in/repo=path/of/file.")
]
Evidence = Annotated[list[str] | None, typer.Option("--evidence", help="What motivated it.")]

Seeds = Annotated[list[str] | None, typer.Option(help="phase=1,2,3 or phase=1-5.")]
Steps = Annotated[int | None, typer.Option(help="Steps of a full training.")]
Est = Annotated[list[str] | None, typer.Option(help="What it costs: gpu_h=2.")]


def read_draft(path: Path | None) -> dict[str, Any]:
    """Return the parts of a candidate that a YAML or JSON file holds."""
    from telic.studies.yaml_files import read_yaml

    found = {} if path is None else read_yaml(path)
    if not isinstance(found, dict):
        raise ConfigError(f"{path} does not hold keys and values.")
    return found


def put(values: dict[str, Any], part: str, given: dict[str, Any]) -> None:
    """Lay what the options say over a part of the draft; what is None or empty was not said."""
    said = {key: value for key, value in given.items() if value not in (None, "")}
    if said:
        values[part] = {**(values.get(part) or {}), **said}


def hypothesis(because: str, mechanism: str, expects: str | None, falsifier: str) -> dict[str, Any]:
    """Return the hypothesis that the options say; `expects` is metric:direction:size."""
    expected = None
    if expects is not None:
        metric, _, rest = expects.partition(":")
        direction, _, size = rest.partition(":")
        magnitude = _number(size) if size else None
        expected = {"metric": metric, "direction": direction or "max", "magnitude": magnitude}
    return {
        "statement": because,
        "mechanism": mechanism,
        "expected": expected,
        "falsifier": falsifier,
    }


def overrides(sets: list[str] | None, was: list[str] | None) -> dict[str, Any]:
    """Return the changed parameters, each with its value before."""
    new, old = pairs(sets or [], "--set"), pairs(was or [], "--was")
    made = {path: {"from": old.get(path), "to": value} for path, value in new.items()}
    return {"overrides": made or None}


def plan(seeds: list[str] | None, steps: int | None, est: list[str] | None) -> dict[str, Any]:
    """Return the plan that the options say; what is left out is None."""
    phases = {phase: integers(text, "--seeds") for phase, text in texts(seeds).items()}
    cost = pairs(est or [], "--est")
    return {"steps": steps, "est": cost or None, "seeds": phases or None}


def attachments(patch: Path | None, files: list[str] | None) -> Attachments:
    """Return the files that come along."""
    from telic.studies.candidate_files import Attachments

    named = {path: Path(str(source)) for path, source in texts(files).items()}
    return Attachments(patch=patch, files=named)


def texts(given: list[str] | None) -> dict[str, str]:
    """Read repeated name=text options; the text stays text."""
    out: dict[str, str] = {}
    for each in given or []:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise ConfigError(f'"{each}" is not understood.', hint="Write name=value.")
        out[name] = text
    return out


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f'"{text}" is not a number.', hint="Write metric:max:0.1.") from None
