"""Label judged episodes and veto sessions that passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telic import session as sessions
from telic.authors.request import SessionConfig
from telic.core.request import argument, option
from telic.core.verb import VerbResult, as_data, verb
from telic.errors import UsageError
from telic.session.records import verified
from telic.storage.files import read_record
from telic.storage.workspace import Workspace
from telic.verbs.control import AuthoredRequest, SessionRequest

if TYPE_CHECKING:
    from telic.session.labels import EpisodeLabel

EXAMPLES = """
telic label no --why "it slides"    the episode that the report shows
telic label yes --session SESSION --episode p90
telic label p90 median              of two episodes, the first is better
telic label                         labels so far
telic veto --why "a look-alike"     withdraw a pass
"""


class _LabelRequest(AuthoredRequest):
    """Request to label an episode, or to name the better of two episodes."""

    answer: str | None = argument(
        "yes or no: whether the episode shows the intended behavior; or the better of two "
        "episodes, as [POLICY:]EPISODE. Default: list all labels.",
        default=None,
    )
    worse: str | None = argument("The worse of the two episodes.", default=None)
    session: str = option("Session of the episode.", default="latest")
    episode: str | None = option(
        "Episode number from 1, or p10, median or p90. Default: the median.", default=None
    )
    member: str | None = option("Policy. Default: the best policy.", "--member", "-m", default=None)
    iteration: int | None = option("Iteration. Default: that of the best policy.", default=None)
    why: str | None = option("Reason.", default=None)


_COLUMNS = ("iteration", "member", "episode", "is_wanted", "score", "disagrees", "author", "why")


def _as_line(label: EpisodeLabel) -> dict[str, Any]:
    return {**as_data(label), "disagrees": label.disagrees}


@verb(_LabelRequest, examples=EXAMPLES)
def label(request: _LabelRequest) -> VerbResult[dict[str, Any]]:
    """Label whether an episode shows the intended behavior. Labels calibrate the judge."""
    folder = Workspace(request.runs_dir).session(request.session)
    threshold = read_record(folder.config, SessionConfig).threshold
    if request.answer is None:
        if not folder.judge.exists():
            raise UsageError(f"{folder.name} has no judge yet, so there is nothing to label.")
        standing, rows = sessions.labels.calibration_of(folder, threshold), folder.labels
        listed = [_as_line(each) for each in sessions.labels.EpisodeLabel.read(rows)]
        data: dict[str, Any] = {"session": folder.name, "labels": listed}
        compared = sessions.labels.EpisodePreference.read(folder.preferences)
        data |= {"preferences": [{**as_data(x), "agrees": x.agrees} for x in compared]}
        data |= {"vetoes": as_data(sessions.labels.Veto.read(folder.vetoes))}
        hint = standing.words if listed else f"Add one: telic label yes --session {folder.name}"
        return VerbResult({**data, "calibration": as_data(standing)}, _COLUMNS, hint)
    given: dict[str, Any] = {"why": request.why, "author": request.author, "by": request.by}
    given["iteration"] = request.iteration
    if request.worse is not None:
        pair = sessions.labels.add_preference(folder, request.answer, request.worse, **given)
        return VerbResult({"session": folder.name, **as_data(pair), "agrees": pair.agrees})
    if request.answer not in ("yes", "no"):
        raise UsageError(
            f"{request.answer!r} is neither yes nor no.", hint="telic label BETTER WORSE"
        )
    made = sessions.labels.add_label(
        folder,
        request.answer == "yes",
        member=request.member,
        episode=request.episode,
        **given,
    )
    standing, is_wrong = (
        sessions.labels.calibration_of(folder, threshold),
        made.passed and not made.is_wanted,
    )
    veto = f' Withdraw the pass: telic veto {folder.name} --why "..."' if is_wrong else ""
    data = {"session": folder.name, **_as_line(made), "calibration": as_data(standing)}
    return VerbResult(data, hint=f"{standing.words}{veto}")


class _VetoRequest(SessionRequest, AuthoredRequest):
    """Request to withdraw a pass."""

    why: str = option("Reason.")


@verb(_VetoRequest, examples=EXAMPLES)
def veto(request: _VetoRequest) -> VerbResult[dict[str, Any]]:
    """Withdraw a pass. The session is permanently recorded as unproven."""
    folder = request.folder
    made = sessions.labels.add_veto(folder, request.why, request.author, request.by)
    sessions.report.rewrite_report(
        folder, redraws=False
    )  # without new plots: the judged result is unchanged
    best = verified(folder).best_iteration
    hint = f'Try again: telic branch {folder.name} --iteration {best} --note "..."'
    return VerbResult({"session": folder.name, **as_data(made)}, hint=hint)
