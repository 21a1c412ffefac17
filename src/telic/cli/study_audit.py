"""telic study audit, card, confirm: what a repository does, and what a person makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.scan.records import EntryPoint, RepositoryAudit, Sink


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit")(command(audit))
    app.command("card")(command(card))
    app.command("confirm")(command(confirm))


def audit(
    write: Annotated[
        bool, typer.Option("--write", help="Fill adapter.yaml and the task card of the task.")
    ] = False,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read the repository: how it trains, evaluates, logs, rewards. Nothing of it is run."""
    from telic.studies.audit_files import write_audit
    from telic.studies.offline import offline
    from telic.studies.scan import audit_repository

    folder = find_study(root, task, study) if write else None
    with offline("audit"):
        found = audit_repository(root)
        if folder is not None:
            write_audit(folder, found)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        _show(found)


def card(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the task card anew from the repository; people's own words in it stay."""
    from telic.studies.audit_files import write_card
    from telic.studies.offline import offline
    from telic.studies.scan import audit_repository

    folder = find_study(root, task, study)
    with offline("card"):
        text = write_card(folder, audit_repository(root))
    if as_json:
        print_json({"path": str(folder.task_card), "text": text})
    else:
        console.print(text, markup=False, soft_wrap=True)


def confirm(
    field: Annotated[str, typer.Argument(help="E.g. commands.train, seeds, metrics.map.return.")],
    value: Annotated[
        str | None, typer.Argument(help="What it is; left out: what the adapter says is right.")
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Confirm or correct a field of adapter.yaml; a person types a code in a terminal."""
    from telic.core.config import read_value
    from telic.studies.confirming import confirm_field
    from telic.studies.dotted import value_at
    from telic.studies.human import ask_on_terminal
    from telic.studies.yaml_files import rewrite_yaml

    folder = find_study(root, task, study)
    is_command = field.startswith("commands.") and field.count(".") == 1
    given = value if value is None or is_command else read_value(value)
    changed = confirm_field(folder.read_adapter(), field, given)
    value_now = value_at(changed.as_data(), field)
    ask_on_terminal(f"{field} is {value_now}")
    rewrite_yaml(folder.adapter, changed)
    if as_json:
        print_json({"field": field, "value": value_now, "status": "confirmed"})
    else:
        console.print(f"[green]✓[/] {escape(field)} is confirmed")


def _show(found: RepositoryAudit) -> None:
    console.print(f"[bold]{escape(found.name)}[/]  {escape(found.summary)}", soft_wrap=True)
    config = found.config
    rows = [
        ("archetype", found.archetype.replace("_", " "), ""),
        ("train", _argv(found.train), _sure(found.train)),
        ("evaluate", _argv(found.evaluate) or found.evaluation.style, _sure(found.evaluate)),
        (
            "settings",
            ", ".join(filter(None, (config.primary, *config.secondary))) or "unknown",
            f"{config.confidence:.2f}",
        ),
        ("numbers", ", ".join(map(_sink, found.sinks)), ""),
        ("reward", _files(found), f"{found.sources.reward.confidence:.2f}"),
        ("seed", found.seeds.flag or "unknown", ""),
    ]
    console.print(table(None, ("what", "answer", "sure"), rows))
    if found.hazards:
        hazards = [(each.id, each.detail) for each in found.hazards]
        console.print(table("Hazards", ("hazard", "why"), hazards))
    if found.unignored:
        places = escape(", ".join(found.unignored))
        console.print(f"[yellow]![/] git does not ignore {places}: add what runs write to")
        console.print("  .gitignore, or gate G18 finds the tree changed after the first run")
    console.print(f"[dim]{found.python_files} Python files read in {found.seconds:.1f} s[/]")


def _sink(sink: Sink) -> str:
    return sink.name if sink.default else f"{sink.name} (optional)"


def _argv(entries: tuple[EntryPoint, ...]) -> str:
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    return " ".join(entries[0].argv) + more if entries else ""


def _sure(entries: tuple[EntryPoint, ...]) -> str:
    return f"{entries[0].confidence:.2f}" if entries else ""


def _files(found: RepositoryAudit) -> str:
    reward = found.sources.reward
    return "outside this repository" if reward.external else ", ".join(reward.files[:3])
