"""Let a study go on by itself: everything that needs nobody, up to one clear question."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from telic.core.config import Record
from telic.core.request import inner, option
from telic.core.verb import verb
from telic.studies.next import NextAction
from telic.verbs.study import StudyRequest

if TYPE_CHECKING:
    from telic.studies.study import Study


class GoRequest(StudyRequest):
    """A study that is to go on."""

    confirm: str | None = option(
        "The word RUN_CANDIDATE: runs may be started. Left out, the first one ends it.",
        default=None,
    )
    most: int = option("Stop after so many steps.", "--most", default=1000, minimum=1)
    on_step: Callable[[str], None] = inner("Called with what is done now.", default=lambda _: None)


class GoneOn(Record):
    """How far a study came, and what it waits for."""

    study: str
    steps: dict[str, int]
    """how often each thing was done"""
    runs: int
    """started on the way"""
    incumbent: str | None
    question: NextAction
    """what somebody has to do now"""


@verb(GoRequest)
def go(request: GoRequest) -> GoneOn:
    """Do what comes next until somebody has to decide, and say what.

    It settles, measures, reflects, audits, advances and plans; it drafts the baseline, agrees on a
    contract that nobody approved yet, and rejects what the rules reject. With --confirm
    RUN_CANDIDATE it starts runs and waits for them. What a person has to agree to it leaves.
    """
    from telic.studies.drive import go as drive
    from telic.studies.launch.attempt import check_words

    if request.confirm is not None:
        check_words(True, request.confirm)
    study = request.open()
    done, said = dict[str, int](), None
    launched = len(study.state.runs)
    for said in drive(study, request.who, may_launch=request.confirm is not None):
        request.on_step(_told(study, said))
        if said.action != "wait":
            done[said.action] = done.get(said.action, 0) + 1
        if sum(done.values()) > request.most:
            break
    assert said is not None
    done[said.action] -= 1
    trusted = study.incumbent
    return GoneOn(
        study=study.name,
        steps={name: count for name, count in done.items() if count},
        runs=len(study.state.runs) - launched,
        incumbent=None if trusted is None else trusted.candidate,
        question=said,
    )


def _told(study: Study, said: NextAction) -> str:
    about = said.args.get("candidate") or said.args.get("run") or study.name
    return f"{said.action} {about}: {said.why}"
