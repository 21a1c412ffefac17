"""End a run on purpose, and keep who wanted it and why."""

from __future__ import annotations

from telic.errors import UnknownName
from telic.storage.files import read_json
from telic.studies.documents.runs import KilledBy
from telic.studies.errors import StudyError
from telic.studies.launch.choose import ON_THIS_MACHINE, launcher_of
from telic.studies.launch.processes import ask_to_stop
from telic.studies.study import Study


def stop_run(study: Study, run: str, by: KilledBy, why: str) -> None:
    """Ask a live run to end; its supervisor gives it time to save, then ends it for certain.

    What it took is settled by the next `reconcile`. Raises StudyError E_NOT_LIVE.
    """
    state = study.state
    held = state.runs.get(run)
    if held is None:
        raise UnknownName("run", run, list(state.active_runs), see="telic study state")
    if not held.is_live:
        raise StudyError("E_NOT_LIVE", f"{run} is {held.status} already.")
    folder = study.folder.run(run)
    ask_to_stop(folder, by, why)
    kind = read_json(folder / "run.json")["launcher"]
    if kind not in ON_THIS_MACHINE:
        options = read_json(folder / "cmd.json").get("launcher_options", {})
        launcher_of(kind, options).stop(str(held.nonce), folder)
