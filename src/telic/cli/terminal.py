"""What people write on a terminal and programs do not: words in any order, plans, questions.

A request here has a `meaning`: the verb and the request that its words stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.core.request import argument, option
from telic.core.verb import Verb, verb
from telic.errors import UsageError
from telic.training.job import TrainRequest
from telic.verbs.control import SessionNoteRequest, note
from telic.verbs.labels import LabelRequest, label
from telic.verbs.search import SearchRequest, search
from telic.verbs.session import IntentRequest, run
from telic.verbs.things import ReportRequest, ThingShowRequest, report, show
from telic.verbs.train import train

if TYPE_CHECKING:
    from telic.web.site import SavedSite

Meaning = tuple[Verb[..., Any, Any], Any]


class TerminalTrain(TrainRequest):
    """Words that name the environment and change settings, and a plan without a run."""

    words: Sequence[str] = argument(
        "Environment, then changes of settings.",
        default=(),
        many=True,
        metavar="ENV [key=value ...]",
    )
    env: str = option("Environment id, module:Class, or path of an MJCF file.", default="")
    dry_run: bool = option("Print the plan and stop.", default=False)

    def meaning(self) -> Meaning:
        """Tell the environment from `key=value` words."""
        settings = [word for word in self.words if "=" in word]
        envs = [word for word in self.words if "=" not in word]
        if self.env:
            envs.append(self.env)
        if len(envs) != 1:
            several = f"Expected one environment, not {' and '.join(envs)}."
            raise UsageError(
                several if envs else "Which environment?",
                hint="For example: telic train HalfCheetah-v5. See all with: telic envs",
            )
        assert not isinstance(self.settings, Mapping)
        request = replace(self, env=envs[0], settings=[*self.settings, *settings], words=())
        if not self.dry_run:
            return train, request
        from telic.training.plan import plan

        return plan, request


class TerminalRun(IntentRequest):
    """A session whose criteria are shown and asked about here."""

    interactive: bool = option(
        "Show the criteria and ask here.", "--interactive", "-i", default=False
    )

    def meaning(self) -> Meaning:
        """Let the session wait for an answer where one is asked for."""
        return run, replace(self, approve=self.approve or self.interactive)


class TerminalSearch(SearchRequest):
    """A search; without a task it says which there are."""

    env: str = option("Task: see telic search envs.", "--env", default="")

    def meaning(self) -> Meaning:
        """Refuse a search without a task."""
        if not self.env:
            raise UsageError("Which task?", hint="Name one with --env; see: telic search envs")
        return search, self


class TerminalNote(SessionNoteRequest):
    """The session first, if it is not the latest."""

    text: str = option("", default="", hidden=True)
    session: str = option("", default="latest", hidden=True)
    words: Sequence[str] = argument(
        'The latest session if left out: telic note "slower"', many=True, metavar="[SESSION] TEXT"
    )

    def meaning(self) -> Meaning:
        """Tell the session from the note."""
        if len(self.words) > 2:
            raise UsageError(
                "Put the note in quotes.", hint='For example: telic note "less bouncing please"'
            )
        *session, text = self.words
        return note, replace(self, text=text, session=session[0] if session else "latest")


class TerminalLabel(LabelRequest):
    """The session first, if it is not the latest; then yes or no."""

    answer: Literal["yes", "no"] | None = option("", default=None, hidden=True)
    session: str = option("", default="latest", hidden=True)
    words: Sequence[str] = argument(
        "The latest session if left out; without yes or no, the labels so far.",
        default=(),
        many=True,
        metavar="[SESSION] [yes|no]",
    )

    def meaning(self) -> Meaning:
        """Tell the session from the answer."""
        words = list(self.words)
        answer = words.pop().lower() if words and words[-1].lower() in ("yes", "no") else None
        if len(words) > 1:
            raise UsageError(
                f'"{words[-1]}" is neither yes nor no.',
                hint='For example: telic label no --why "it slides"',
            )
        session = words[0] if words else self.session
        return label, replace(self, answer=answer, session=session, words=())


class TerminalShow(ThingShowRequest):
    """A run, or the command that made it."""

    command_line: bool = option(
        "Print only the command that made this run.", "--command", default=False
    )

    def meaning(self) -> Meaning:
        """Tell a look at a thing from the question for its command."""
        return (command_of if self.command_line else show), self


class CommandLine(NamedTuple):
    """The command that made a run."""

    command: str


@verb(TerminalShow)
def command_of(request: TerminalShow) -> CommandLine:
    """Say which command made a run."""
    from telic.storage.facts import ManifestFacts
    from telic.storage.files import read_facts

    manifest = read_facts(request.find("run").path / "manifest.json", ManifestFacts)
    return CommandLine(manifest.get("command") or "")


class TerminalReport(ReportRequest):
    """A report, or the dashboard's pages of a thing as files."""

    site: Path | None = option(
        "Write the dashboard's pages of it into this folder instead: they open from disk, with "
        "curves and episodes in 3-D, and can be sent to anybody.",
        "--site",
        default=None,
        metavar="DIR",
    )

    def meaning(self) -> Meaning:
        """Tell a report from a site."""
        return (report if self.site is None else saved_site), self


@verb(TerminalReport)
def saved_site(request: TerminalReport) -> SavedSite:
    """Write the dashboard's pages of a thing as files that open from disk."""
    from telic.web import require_web

    require_web()
    from telic.web.site import write_site

    assert request.site is not None
    thing = request.find("session", "run", "search", "study")
    return write_site(thing, Path(request.runs_dir), Path(request.root), request.site)


train_on_terminal = train.asked_with(TerminalTrain)
run_on_terminal = run.asked_with(TerminalRun)
search_on_terminal = search.asked_with(TerminalSearch)
note_on_terminal = note.asked_with(TerminalNote)
label_on_terminal = label.asked_with(TerminalLabel)
show_on_terminal = show.asked_with(TerminalShow)
report_on_terminal = report.asked_with(TerminalReport)
