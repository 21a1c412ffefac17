"""Labels of judged episodes by people and agents, and vetoes of passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.authors.request import SessionConfig
from telic.core.request import RunsRequest, argument, inner, option
from telic.core.verb import as_data, verb
from telic.errors import UsageError
from telic.session.records import verified
from telic.storage.files import read_record
from telic.storage.workspace import Workspace

if TYPE_CHECKING:
    from telic.judges.verdict import PersonCalibration
    from telic.session.labels import EpisodeLabel, Veto

EXAMPLES = """
telic label no --why "it slides"    the episode that the report shows

telic label yes --session SESSION --episode p90

telic label                         labels so far

telic label --export task           60 contact sheets and a table for two labellers

telic veto --why "a look-alike"     withdraw a pass
"""


class LabelRequest(RunsRequest):
    """An episode, and whether it is what was asked for."""

    answer: Literal["yes", "no"] | None = argument(
        "Whether the episode is what you asked for; default: list the labels.",
        default=None,
        what="answer",
    )
    session: str = option("Session; default: the latest.", default="latest")
    episode: str | None = option(
        "Number from 1, or p10, median or p90; default: the median, as in the report.",
        default=None,
    )
    member: str | None = option("Policy; default: the best.", "--member", "-m", default=None)
    iteration: int | None = option("Iteration; default: that of the best policy.", default=None)
    why: str | None = option("Reason.", default=None)
    author: str | None = inner("Author; default: the user.", default=None)
    by: Literal["person", "agent"] = inner(
        "Kind of author: a person or an agent.", default="person"
    )


class _LabelTaken(NamedTuple):
    """A label, and the calibration of the judge by all labels."""

    session: str
    label: EpisodeLabel
    standing: PersonCalibration

    def as_data(self) -> dict[str, Any]:
        """Return the label with its session and the calibration of the judge."""
        more = {"disagrees": self.label.disagrees, "calibration": as_data(self.standing)}
        return {"session": self.session, **as_data(self.label), **more}

    @property
    def hint(self) -> str:
        """Agreement of labels and judge, and how to withdraw a pass."""
        is_wrong = self.label.passed and not self.label.is_wanted
        veto = f' Withdraw the pass: telic veto {self.session} --why "..."' if is_wrong else ""
        return f"{self.standing.words}{veto}"


class _LabelList(NamedTuple):
    """Labels and vetoes of a session."""

    session: str
    labels: list[EpisodeLabel]
    vetoes: list[Veto]
    standing: PersonCalibration
    columns = ("iteration", "member", "episode", "is_wanted", "score", "disagrees", "author", "why")

    def as_data(self) -> dict[str, Any]:
        """Return labels, vetoes and the calibration of the judge."""
        labels = [{**as_data(label), "disagrees": label.disagrees} for label in self.labels]
        more = {"vetoes": as_data(self.vetoes), "calibration": as_data(self.standing)}
        return {"session": self.session, "labels": labels, **more}

    @property
    def hint(self) -> str:
        """Agreement of labels and judge, or how to add a label."""
        return (
            self.standing.words
            if self.labels
            else f"Add one: telic label yes --session {self.session}"
        )


@verb(LabelRequest, examples=EXAMPLES)
def label(request: LabelRequest) -> _LabelTaken | _LabelList:
    """Label whether an episode is what you asked for; labels calibrate the judge."""
    workspace = Workspace(request.runs_dir)
    from telic.session import labels

    folder = workspace.session(request.session)
    threshold = read_record(folder.config, SessionConfig).threshold
    if request.answer is None:
        if not folder.judge.exists():
            raise UsageError(f"{folder.name} has no judge yet, so there is nothing to label.")
        standing = labels.calibration_of(folder, threshold)
        return _LabelList(
            folder.name,
            labels.EpisodeLabel.read(folder.labels),
            labels.Veto.read(folder.vetoes),
            standing,
        )
    made = labels.add_label(
        folder,
        request.answer == "yes",
        iteration=request.iteration,
        member=request.member,
        episode=request.episode,
        why=request.why,
        author=request.author,
        by=request.by,
    )
    return _LabelTaken(folder.name, made, labels.calibration_of(folder, threshold))


class VetoRequest(RunsRequest):
    """A pass to withdraw."""

    session: str = argument(
        "Its id, the start of one, a path, or 'latest'.", default="latest", metavar="SESSION"
    )
    why: str = option("Reason.")
    author: str | None = inner("Author; default: the user.", default=None)
    by: Literal["person", "agent"] = inner(
        "Kind of author: a person or an agent.", default="person"
    )


class _VetoTaken(NamedTuple):
    """A veto, and the session whose pass it withdrew."""

    session: str
    veto: Veto
    hint: str

    def as_data(self) -> dict[str, Any]:
        """Return the veto with its session."""
        return {"session": self.session, **as_data(self.veto)}


@verb(VetoRequest, examples=EXAMPLES)
def veto(request: VetoRequest) -> _VetoTaken:
    """Withdraw a pass: the session becomes unproven, permanently and on record."""
    from telic.session.labels import add_veto
    from telic.session.report.document import rewrite_report

    folder = Workspace(request.runs_dir).session(request.session)
    made = add_veto(folder, request.why, request.author, request.by)
    rewrite_report(folder, redraws=False)  # what was judged looks as it did
    best = verified(folder).best_iteration
    hint = f'Try again: telic branch {folder.name} --iteration {best} --note "..."'
    return _VetoTaken(folder.name, made, hint)
