"""telic.run: an intent in, a policy with evidence out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from telic.authors.author import Brief, author_for
from telic.core.events import (
    Event,
    Listener,
    SessionStart,
    TrainProgress,
    VideoProgress,
    encode,
    ignore,
)
from telic.envs import make
from telic.judges.code import find_judge
from telic.sandbox.host import prewarmed
from telic.session import WORKERS
from telic.session.budget import Allowance, SessionAccount
from telic.session.control import SessionControl, SessionWork
from telic.session.loop import run_loop
from telic.session.records import SessionConfig, SessionSummary
from telic.storage.files import JsonLines, read_record, write_json
from telic.storage.layout import SessionFolder, new_session
from telic.storage.locks import RunLock
from telic.storage.workspace import Workspace
from telic.training.machine import compiling_ahead

_LIMITS = ("max_calls", "max_usd", "max_hours", "max_steps")


class Session(NamedTuple):
    """A finished or stopped session."""

    path: Path
    summary: SessionSummary

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.summary.model_dump(mode="json")}

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
        """Return the best policy, as it was judged."""
        from telic.training.policy import load_policy

        if self.run is None or self.summary.best_member is None:
            raise ValueError("This session trained no policy.")
        return load_policy(self.run / self.summary.best_member, self.summary.best_step)


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
        options: other fields of `SessionConfig`: iterations, seeds, threshold, model, ...

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    config = SessionConfig.parse({"intent": intent, "env": env, **options})
    if config.judge is not None:
        find_judge(config.judge)  # before anything is spent
    folder = None if fresh else _unfinished(config, Path(runs_dir))
    if folder is None:
        folder = new_session(Path(runs_dir))
        folder.path.mkdir(parents=True)
        write_json(folder.config, config)
    return carry_on(folder, on_event=on_event, should_stop=should_stop)


def carry_on(
    folder: SessionFolder,
    *,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> Session:
    """Do a session whose request is in its folder, from wherever it is."""
    config = read_record(folder.config, SessionConfig)
    with RunLock(folder.lock, folder.name):
        folder.stop.unlink(missing_ok=True)
        with JsonLines(folder.events) as log:

            def tell(event: Event) -> None:
                if not isinstance(event, TrainProgress | VideoProgress):
                    log.append(encode(event))
                on_event(event)

            tell(
                SessionStart(
                    session=folder.name,
                    path=str(folder.path),
                    intent=config.intent,
                    env=config.env,
                    resumed=folder.asked.exists(),
                )
            )
            account = SessionAccount(folder, allowance(config))
            control = SessionControl(folder, tell, should_stop, account)
            brief = _brief(config, folder, control, tell)
            with compiling_ahead(config.env, {}, config.device), prewarmed(WORKERS):
                summary = run_loop(SessionWork(config, brief, author_for(brief), control))
            account.save()
    return Session(folder.path, summary)


def allowance(config: SessionConfig) -> Allowance:
    """Return what a session may spend at most."""
    return Allowance(
        hours=config.max_hours, steps=config.max_steps, usd=config.max_usd, calls=config.max_calls
    )


def _brief(
    config: SessionConfig, folder: SessionFolder, control: SessionControl, tell: Listener
) -> Brief:
    """Return what the author of a session is asked for."""
    env = make(config.env, num_envs=1)
    env.close()
    return Brief(
        intent=config.intent,
        env=config.env,
        spec=env.spec,
        folder=folder,
        criteria=config.criteria,
        threshold=config.threshold,
        device=config.device,
        model=config.model,
        vision=config.vision,
        max_usd=config.max_usd,
        max_calls=config.max_calls,
        tell=tell,
        should_stop=control.wants_stop,
    )


def _unfinished(config: SessionConfig, runs_dir: Path) -> SessionFolder | None:
    """Return the latest session of this request that has not come to its end.

    What may be spent does not make it another request: a larger budget lets it go on. A branch is
    gone on with by its own name.
    """

    def is_same(path: Path) -> bool:
        folder = SessionFolder(path)
        if folder.origin.exists():
            return False
        known = read_record(folder.config, SessionConfig)
        return known.model_copy(update={name: getattr(config, name) for name in _LIMITS}) == config

    path = Workspace(runs_dir).unfinished("session", is_same)
    if path is None:
        return None
    folder = SessionFolder(path)
    write_json(folder.config, config)
    return folder
