"""telic study candidate: ideas that can be wrong, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli import study_decisions, study_queue
from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_facts, print_json, table
from telic.cli.study_drafts import (
    Draft,
    Est,
    Evidence,
    Files,
    Patch,
    Seeds,
    Sets,
    Steps,
    Was,
    attachments,
    hypothesis,
    overrides,
    plan,
    put,
    read_draft,
)
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.documents.candidate import Candidate
    from telic.studies.state import CandidateState

_EXAMPLES = """
[bold]Examples[/]

telic study candidate new "more tracking" --kind reward_tuning --set reward.weight=2.0
--was reward.weight=1.0 --because "..." --mechanism "..." --expects success:max
--falsifier "success does not rise by 0.02" --evidence e-0123456789ab --est gpu_h=2

telic study candidate new "new term" --draft idea.yaml --patch change.diff

telic study candidate validate c-0003-more-tracking
"""
Name = Annotated[str, typer.Argument(help="Candidate, e.g. c-0003-more-tracking.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from telic.studies.offline import launch_free

    candidate = typer.Typer(help="Ideas, one bounded change each.", no_args_is_help=True)
    candidate.command("new", epilog=_EXAMPLES)(command(launch_free(new)))
    candidate.command("revise")(command(launch_free(revise)))
    candidate.command("validate")(command(launch_free(validate)))
    candidate.command("show")(command(launch_free(show)))
    candidate.command("similar")(command(launch_free(similar)))
    candidate.command("withdraw")(command(launch_free(withdraw)))
    app.add_typer(candidate, name="candidate")
    app.command("baseline")(command(launch_free(baseline)))
    study_queue.register(app)
    study_decisions.register(app)


def new(
    title: Annotated[str, typer.Argument(help="A few words; they become part of the id.")],
    kind: Annotated[str | None, typer.Option(help="config, reward_tuning, code, …")] = None,
    draft: Draft = None,
    sets: Sets = None,
    was: Was = None,
    patch: Patch = None,
    files: Files = None,
    because: Annotated[str, typer.Option(help="What you think will happen.")] = "",
    mechanism: Annotated[str, typer.Option(help="Why it should.")] = "",
    expects: Annotated[str | None, typer.Option(help="metric:max or metric:min:0.1.")] = None,
    falsifier: Annotated[str, typer.Option(help="What would show that it is wrong.")] = "",
    evidence: Evidence = None,
    parent: Annotated[list[str] | None, typer.Option(help="Candidate it comes from.")] = None,
    seeds: Seeds = None,
    steps: Steps = None,
    est: Est = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a new draft; what you leave open is filled in from the contract."""
    from telic.studies.candidate import new_candidate
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger

    values = read_draft(draft)
    given = {"kind": kind, "parents": parent, "evidence_refs": evidence}
    values |= {key: value for key, value in given.items() if value is not None}
    put(values, "hypothesis", hypothesis(because, mechanism, expects, falsifier))
    put(values, "change", overrides(sets, was))
    put(values, "plan", plan(seeds, steps, est))
    made = new_candidate(
        Ledger(find_study(root, task, study)),
        title,
        values,
        current_actor(),
        attachments(patch, files),
    )
    _said(made, as_json, f"Next: telic study candidate validate {made.id}")


def baseline(
    est: Est = None,
    steps: Steps = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the baseline: the repository as it is, measured with the contract's seeds."""
    from telic.studies.candidate import new_candidate
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger

    values: dict[str, Any] = {"kind": "baseline"}
    put(values, "plan", plan(None, steps, est))
    ledger = Ledger(find_study(root, task, study))
    made = new_candidate(ledger, "baseline", values, current_actor())
    _said(made, as_json, f"Next: telic study candidate validate {made.id}")


def revise(
    name: Name,
    draft: Draft = None,
    sets: Sets = None,
    was: Was = None,
    patch: Patch = None,
    files: Files = None,
    seeds: Seeds = None,
    steps: Steps = None,
    est: Est = None,
    base_revision: Annotated[
        int | None, typer.Option(help="The revision you changed; refused if it is not the last.")
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write a new revision of a draft, or mend a candidate in debug; earlier revisions stay."""
    from telic.studies.candidate import revise_candidate
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger

    values = read_draft(draft)
    put(values, "change", overrides(sets, was))
    put(values, "plan", plan(seeds, steps, est))
    made = revise_candidate(
        Ledger(find_study(root, task, study)),
        name,
        values,
        current_actor(),
        base_revision=base_revision,
        attachments=attachments(patch, files),
    )
    _said(made, as_json, f"revision {made.revision}")


def validate(
    name: Name,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the checks V01 to V16 and freeze the candidate when all pass. Exit code 4 if not."""
    from telic.studies.ledger import Ledger
    from telic.studies.validation.validating import validate_candidate

    outcome = validate_candidate(Ledger(find_study(root, task, study)), name)
    if as_json:
        print_json({**outcome.as_data(), "ok": outcome.ok})
    else:
        marks = {True: "✓", False: "✗"}
        rows = [(each.id, marks[each.passed], each.why) for each in outcome.checks]
        console.print(table(None, ["check", "", "why not"], rows))
        console.print(f"{name} is {outcome.status}")
    if not outcome.ok:
        raise typer.Exit(4)


def show(
    name: Annotated[str | None, typer.Argument(help="Candidate; all of them if left out.")] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show one candidate, or a table of all."""
    from telic.studies.candidate_files import current_candidate
    from telic.studies.ledger import Ledger

    ledger = Ledger(find_study(root, task, study))
    if name is None:
        _tell_all(ledger.state().candidates, as_json)
        return
    found = current_candidate(ledger, name)
    if as_json:
        print_json(found.as_data())
        return
    said = found.hypothesis
    changes = {
        path: f"{each.from_value} → {each.to}" for path, each in found.change.overrides.items()
    }
    print_facts(
        {
            "candidate": f"{found.id}, revision {found.revision}",
            "kind": found.kind,
            "status": f"{found.status}{f' in {found.phase}' if found.phase else ''}",
            "hypothesis": said.statement,
            "because": said.mechanism,
            "wrong if": said.falsifier,
            **changes,
            "patch": found.change.patch,
            "parents": ", ".join(found.parents) or None,
            "content": (found.content_hash or "")[:12],
        }
    )


def similar(
    name: Name,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show earlier candidates that resemble this one, and what became of them."""
    from telic.studies.ledger import Ledger
    from telic.studies.similar import similar_candidates

    found = similar_candidates(Ledger(find_study(root, task, study)), name)
    if as_json:
        print_json([each.as_data() for each in found])
        return
    rows = [
        (each.candidate, each.likeness, str(each.status), ", ".join(each.shares)) for each in found
    ]
    console.print(table(None, ["candidate", "alike", "status", "shares"], rows))


def withdraw(
    name: Name,
    because: Annotated[str, typer.Option(help="Why.")] = "",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give up an idea that was never tried."""
    from telic.studies.candidate import withdraw as give_up
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger

    give_up(Ledger(find_study(root, task, study)), name, current_actor(), because)
    if as_json:
        print_json({"candidate": name, "status": "rejected"})
    else:
        console.print(f"[green]✓[/] {name} is withdrawn")


def _tell_all(candidates: dict[str, CandidateState], as_json: bool) -> None:
    if as_json:
        print_json({name: each.as_data() for name, each in candidates.items()})
        return
    rows = [
        (name, each.kind, str(each.status), each.phase or "", each.revision)
        for name, each in candidates.items()
    ]
    console.print(table(None, ["candidate", "kind", "status", "phase", "revision"], rows))


def _said(made: Candidate, as_json: bool, following: str) -> None:
    if as_json:
        print_json(made.as_data())
        return
    console.print(f"[green]✓[/] {made.id}, content {(made.content_hash or '')[:12]}")
    console.print(following)
