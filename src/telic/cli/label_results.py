"""Labels and vetoes on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.console import console, print_rows
from telic.cli.output import view
from telic.core.text import count, number

if TYPE_CHECKING:
    from telic.verbs.labels import LabelList, LabelsExported, LabelTaken, VetoTaken

_ANSWERS = {True: "[green]wanted[/]", False: "[yellow]not wanted[/]"}


@view
def show_label(taken: LabelTaken) -> None:
    """Say what was kept, and whether it disagrees with the judge."""
    label = taken.label
    where = f"episode {label.episode} of {label.member}, iteration {label.iteration}"
    gave = "could not tell" if label.score is None else f"gave {number(label.score, 2)}"
    side = "[yellow]disagrees[/]" if label.disagrees else "agrees"
    said = f"the judge {gave}" + ("" if label.score is None else f" and {side}")
    answer = _ANSWERS[label.is_wanted]
    console.print(f"{answer}: {escape(where)} of {taken.session}; {said}", soft_wrap=True)
    console.print(f"[dim]{taken.standing.words}[/]", soft_wrap=True)
    if label.passed and not label.is_wanted:
        again = f'telic veto {taken.session} --why "..."'
        console.print(f"a pass that does not stand: {again}", soft_wrap=True)


@view
def show_labels(found: LabelList) -> None:
    """Print what people said of a session's episodes."""
    for veto in found.vetoes:
        console.print(f"[yellow]![/] {escape(veto.words)}", soft_wrap=True)
    if not found.labels:
        console.print(f"Nobody has labelled an episode of {found.session}.")
        console.print(f"label one with: telic label {found.session} yes")
        return
    rows = [
        (
            f"{x.iteration}/{x.member}/{x.episode}",
            "yes" if x.is_wanted else "no",
            number(x.score, 2),
            "no" if x.disagrees else "yes" if x.score is not None else "–",
            x.author if x.by == "person" else f"{x.author} (agent)",
            x.why or "",
        )
        for x in found.labels
    ]
    print_rows(["episode", "wanted", "judge", "agree", "who", "why"], rows)
    console.print(f"[dim]{found.standing.words}[/]", soft_wrap=True)


@view
def show_exported_labels(made: LabelsExported) -> None:
    """Say where the data set is."""
    labels, sessions = count(made.labels, "label"), count(made.sessions, "session")
    console.print(f"{labels} of {sessions}: {made.file}", markup=False, soft_wrap=True)


@view
def show_veto(taken: VetoTaken) -> None:
    """Say what became of the pass, and how to try again."""
    words = escape(taken.veto.words)
    console.print(f"{taken.session} is [bold yellow]unproven[/]: {words}", soft_wrap=True)
    if taken.best is not None:
        again = f'telic branch {taken.session} --iteration {taken.best} --note "..."'
        console.print(f"try again from it with: {again}", soft_wrap=True)
