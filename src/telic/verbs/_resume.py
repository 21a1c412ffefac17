"""Resume work, and load results from its folder. Importing this module loads training code."""

from __future__ import annotations

from pathlib import Path

from telic.errors import UsageError
from telic.search.records import SearchConfig, SearchFolder, SearchSummary
from telic.search.runner import Search, run_search
from telic.session.control import change_request
from telic.session.loop import Session, resume_session
from telic.session.records import require_unfinished, verified
from telic.storage.files import read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.workspace import Artifact, kind_of
from telic.tracking.train import CONFIG, resume_tracker
from telic.training.folder import is_resumable
from telic.training.job import TrainJob
from telic.training.run import Run, execute
from telic.training.videos import draw_run, finished_run, missing_videos
from telic.verbs.control import WorkResumeRequest, WorkState, work_state
from telic.verbs.lines import state_of


def resume(artifact: Artifact, request: WorkResumeRequest) -> Run | Session | Search | WorkState:
    """Resume the work in a folder. Runs and searches keep their configuration."""
    if artifact.kind == "run":
        return _resume_run(artifact, request)
    if artifact.kind == "session":
        return _resume_session(SessionFolder(artifact.path), artifact.is_running, request)
    if artifact.is_running or artifact.has_ended:
        raise UsageError(f"{artifact.name} is {state_of(artifact)} and cannot be resumed.")
    config = read_record(artifact.path / "search.json", SearchConfig)
    listening = {"on_event": request.on_event, "should_stop": request.should_stop}
    return run_search(config, artifact.path.parent, found=artifact.path, **listening)


def result_in(path: Path) -> Session | Run | Search:
    """Load the result of finished work from its folder."""
    match kind_of(path):
        case "session":
            return Session(path, verified(SessionFolder(path)))
        case "search":
            return Search(path, read_record(SearchFolder(path).summary, SearchSummary))
        case _:
            run = finished_run(RunFolder(path))
            return run._replace(videos=tuple(sorted(path.rglob("*.mp4"))))


def _resume_run(artifact: Artifact, request: WorkResumeRequest) -> Run:
    folder = RunFolder(artifact.path)
    if artifact.has_ended and (wanted := missing_videos(folder)):  # it was stopped while rendering
        return draw_run(finished_run(folder), wanted, request.on_event, request.should_stop)
    if artifact.has_ended:
        raise UsageError(f"{folder.name} is complete and cannot be resumed.")
    if (folder.path / CONFIG).is_file():
        return resume_tracker(folder, request.on_event, request.should_stop)
    if not is_resumable(folder):
        raise UsageError(
            f"{folder.name} was trained by Stable-Baselines3 and cannot be resumed.",
            hint="Run its command again. telic show prints the command.",
        )
    listening = {"on_event": request.on_event, "should_stop": request.should_stop}
    found = {"name": folder.name, "found": folder.path, "videos": "best"}
    run = execute(read_record(folder.config, TrainJob), folder.path.parent, **found, **listening)
    return draw_run(run, "best", request.on_event, request.should_stop)


def _resume_session(
    folder: SessionFolder, is_running: bool, request: WorkResumeRequest
) -> Session | WorkState:
    limits = request.limits()
    require_unfinished(folder)
    if not is_running:
        folder.pause.unlink(missing_ok=True)
        if limits:
            change_request(folder, **limits)
        return resume_session(folder, on_event=request.on_event, should_stop=request.should_stop)
    if not folder.pause.exists():
        raise UsageError(f"{folder.name} is already running.")
    if limits:
        raise UsageError(
            "The limits of a running session cannot be changed.",
            hint=f"Stop it first: telic stop {folder.name}",
        )
    folder.pause.unlink(missing_ok=True)
    return work_state("session", folder.name, "running")  # the session records it soon
