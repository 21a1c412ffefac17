"""telic study contract and approve: what is agreed on, and who agreed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.markup import escape

from telic.cli.options import AsJson, Debug, pairs
from telic.cli.output import command, console, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study
from telic.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from telic.studies.documents.contract import ApprovalKey
    from telic.studies.folder import StudyFolder


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from telic.studies.offline import launch_free

    contract = typer.Typer(help="What may be tried, and how it is judged.", no_args_is_help=True)
    contract.command("draft")(command(launch_free(draft)))
    contract.command("check")(command(launch_free(check)))
    contract.command("evaluator")(command(launch_free(evaluator)))
    contract.command("amend")(command(launch_free(amend)))
    app.add_typer(contract, name="contract")
    app.command("approve")(command(launch_free(approve)))


def draft(
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="An answer, e.g. budget.gpu_h=96. May be repeated."),
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write answers into contract.yaml and say what is still to be asked. Approves nothing."""
    from telic.studies.contract import draft_contract

    folder = find_study(root, task, study)
    draft_contract(folder, pairs(values or [], "--set"))
    _tell_check(folder, as_json)


def check(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what is wrong with the contract, what is to be asked, and which approvals hold.

    Approvals whose text has changed are recorded as void. Exit code 4 when something is wrong.
    """
    from telic.studies.approvals import void_changed

    folder = find_study(root, task, study)
    void_changed(folder)
    if not _tell_check(folder, as_json):
        raise typer.Exit(4)


def evaluator(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files that measure a result; those already named if left out."),
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the hashes of the evaluator's files into eval_protocol.yaml; then amend."""
    from telic.studies.evaluator_files import hash_evaluator

    found = hash_evaluator(find_study(root, task, study), files or ())
    if as_json:
        print_json(found)
        return
    console.print(table(None, ["file", "sha256"], [(each, found[each][:12]) for each in found]))
    console.print("Next: telic study contract amend --reason TEXT")


def amend(
    reason: Annotated[str, typer.Option(help="Why it changes.")] = "",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Agree on contract.yaml as it is: a new version in the ledger, with what changed and why."""
    from telic.studies.approvals import void_changed
    from telic.studies.contract import amend as agree
    from telic.studies.human import ask_on_terminal, current_actor
    from telic.studies.ledger import Ledger

    folder = find_study(root, task, study)
    actor = current_actor()
    if Ledger(folder).state().approvals:
        actor = ask_on_terminal(f"Amend the contract of {folder.name}: {reason}").actor
    event = agree(folder, actor, reason)
    voided = [each.data["key"] for each in void_changed(folder)]
    if as_json:
        print_json({**event.data, "voided": voided})
        return
    console.print(f"[green]✓[/] version {event.data['version']} is agreed on")
    for place, (before, after) in event.data["diff"].items():
        console.print(f"  {escape(place)}: {escape(str(before))} → {escape(str(after))}")
    if voided:
        console.print(f"[yellow]void now:[/] {', '.join(voided)}")


def approve(
    keys: Annotated[
        list[str] | None, typer.Argument(help="What to approve; everything missing if left out.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option(help="For experiment and physical_actuation.")
    ] = None,
    note: Annotated[str, typer.Option(help="A word for the record.")] = "",
    refuse: Annotated[bool, typer.Option("--reject", help="Say no instead of yes.")] = False,
    file: Annotated[
        Path | None, typer.Option("--import", help="Approvals given on another machine.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key", help="The key that signed them there.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write the approvals that hold to a file.")
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Approve parts of the contract, or a candidate: a person types a code in a terminal."""
    from telic.studies.file_approvals import export_approvals

    folder = find_study(root, task, study)
    if export is not None:
        done = export_approvals(folder, export)
    elif file is not None:
        done = _import(folder, file, key_file)
    else:
        done = _ask(folder, _chosen(folder, keys or []), candidate, note, refuse)
    if as_json:
        print_json({"study": folder.name, "keys": done})
    else:
        word = "written" if export else "rejected" if refuse else "approved"
        console.print(f"[green]✓[/] {word}: {', '.join(done) or 'nothing'}")


def _chosen(folder: StudyFolder, keys: list[str]) -> list[ApprovalKey]:
    from telic.studies.approvals import missing
    from telic.studies.documents.contract import ApprovalKey
    from telic.studies.ledger import Ledger

    known: dict[str, ApprovalKey] = {each: each for each in get_args(ApprovalKey)}
    for each in keys:
        if each not in known:
            raise UnknownName("approval", each, list(known))
    if keys:
        return [known[each] for each in keys]
    return [each.key for each in missing(folder, Ledger(folder).state())]


def _ask(
    folder: StudyFolder, keys: list[ApprovalKey], candidate: str | None, note: str, refuse: bool
) -> list[str]:
    """Show every subject, ask once, and record the answer for what was shown."""
    from telic.studies.approvals import grant, reject, shown, standing
    from telic.studies.human import ask_on_terminal
    from telic.studies.ledger import Ledger
    from telic.studies.yaml_files import yaml_text

    if not keys:
        return []
    state = Ledger(folder).state()
    seen = {key: standing(folder, state, key, candidate).subject_hash for key in keys}
    text = "\n".join(f"── {key}\n{yaml_text(shown(folder, key, candidate))}" for key in keys)
    verb = "Reject" if refuse else "Approve"
    consent = ask_on_terminal(f"{text}\n{verb} {', '.join(keys)} of {folder.name}?")
    for key in keys:
        if refuse:
            reject(folder, key, consent, candidate=candidate, note=note)
        else:
            grant(folder, key, consent, candidate=candidate, note=note, seen_hash=seen[key])
    return list(keys)


def _import(folder: StudyFolder, file: Path, key_file: Path | None) -> list[str]:
    from telic.studies.file_approvals import import_approvals
    from telic.studies.human import ask_on_terminal

    if key_file is None:
        raise UsageError("--import needs the key that signed the file.", hint="Add --key PATH.")
    consent = ask_on_terminal(f"Take over the approvals in {file} for {folder.name}?")
    return [each.data["key"] for each in import_approvals(folder, file, key_file, consent)]


def _tell_check(folder: StudyFolder, as_json: bool) -> bool:
    """Print the check and the approvals; returns whether nothing is wrong."""
    from telic.studies.approvals import standings
    from telic.studies.contract import check_contract
    from telic.studies.ledger import Ledger

    found = check_contract(folder)
    approvals = standings(folder, Ledger(folder).state())
    if as_json:
        rows = [each.model_dump(mode="json") for each in approvals]
        print_json({**found.model_dump(mode="json"), "ok": found.ok, "approvals": rows})
        return found.ok
    for text in found.problems:
        console.print(f"[red]✗[/] {escape(text)}", soft_wrap=True)
    for text in found.questions:
        console.print(f"[yellow]?[/] {escape(text)}", soft_wrap=True)
    if found.ok:
        console.print(f"[green]✓[/] version {found.version} is the agreed one")
    console.print()
    rows = [(each.name, each.status, each.why) for each in approvals]
    console.print(table(None, ["approval", "status", "why"], rows))
    return found.ok
