"""What people write on a terminal to look at something: `telic show` and `telic report`.

Apart from `terminal`, because looking is done often and must not load what training takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.request import option
from telic.core.verb import Verb, verb
from telic.verbs.things import ReportRequest, ThingShowRequest, report, show

if TYPE_CHECKING:
    from telic.web.site import SavedSite

Meaning = tuple[Verb[Any, Any], Any]
"""the verb and the request that words stand for"""


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


show_on_terminal = show.asked_with(TerminalShow)
report_on_terminal = report.asked_with(TerminalReport)
