"""telic.run: an intent in, a policy with evidence out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.events import Listener, ignore
from telic.session.folder import SessionFolder, list_sessions, new_session
from telic.session.loop import run_loop
from telic.session.records import SessionConfig, SessionSummary
from telic.storage.files import JsonLines, read_record, write_json
from telic.storage.locks import RunLock, lock_holder

_QUIET = ("train.progress", "video.progress")


class Session(NamedTuple):
    """A finished or stopped session."""

    path: Path
    summary: SessionSummary

    @property
    def passed(self) -> bool:
        """Whether a policy was proven to do what was asked."""
        return self.summary.outcome == "passed"

    @property
    def run(self) -> Path | None:
        """The training run of the best policy."""
        number = self.summary.best_iteration
        return None if number is None else self.path / f"iter_{number}" / "train"

    def policy(self) -> Any:
        """Return the best policy."""
        from telic.training.policy import load_policy

        if self.run is None or self.summary.best_member is None:
            raise ValueError("This session trained no policy.")
        return load_policy(self.run / self.summary.best_member)


def run(
    intent: str,
    *,
    env: str = "HalfCheetah-v5",
    runs_dir: str | Path = "runs",
    fresh: bool = False,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Session:
    """Turn an intent into a policy, or go on with the same request where it was interrupted.

    Args:
        intent: what the robot should do, in words.
        env: environment id or path of an MJCF file.
        runs_dir: where session folders go.
        fresh: start anew even if this very request was interrupted before.
        on_event: called with every event.
        should_stop: polled; True ends the session, saved and resumable.
        options: iterations, seeds, threshold, episodes, steps, device.

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    config = SessionConfig.parse({"intent": intent, "env": env, **options})
    folder = None if fresh else _unfinished(config, Path(runs_dir))
    if folder is None:
        folder = new_session(Path(runs_dir))
        folder.path.mkdir(parents=True)
        write_json(folder.config, config)
    with RunLock(folder.lock, folder.name):
        folder.stop.unlink(missing_ok=True)
        log = JsonLines(folder.events)

        def tell(event: dict[str, Any]) -> None:
            if event["event"] not in _QUIET:
                log.append(event)
            on_event(event)

        def stop() -> bool:
            return should_stop() or folder.stop.exists()

        try:
            summary = run_loop(config, folder, tell, stop)
        finally:
            log.close()
    return Session(folder.path, summary)


def _unfinished(config: SessionConfig, runs_dir: Path) -> SessionFolder | None:
    """Return the latest session of exactly this request that has not come to its end."""
    for folder in list_sessions(runs_dir):
        if lock_holder(folder.lock) is not None:
            continue
        if read_record(folder.config, SessionConfig) != config:
            continue
        if not folder.summary.exists():
            return folder
        if read_record(folder.summary, SessionSummary).outcome == "stopped":
            return folder
    return None
