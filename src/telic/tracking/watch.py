"""Evaluate trackers as they appear in a run's folder, each exactly once.

What says that a tracker was evaluated is its result, which appears whole or not at all: a watcher
that is killed at any moment leaves either a result or nothing, and the next one goes on from there.
Only one watcher works on a run at a time.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.errors import BadFile, TelicError
from telic.motions.clip import Split
from telic.motions.library import MotionLibrary
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.storage.locks import RunLock
from telic.tracking.config import TrackingConfig
from telic.tracking.environment import open_motions
from telic.tracking.evaluate import ClipPlayer, played_clips
from telic.tracking.reports import TrackingReport
from telic.tracking.tracker import load_tracker
from telic.training.folder import status_of

_TRACKER = re.compile(r"tracker_([0-9]{1,18})\.pt")
_PAUSE_S = 1.0


class WatchedTracker(Record):
    """What came of one tracker."""

    schema_version: int = 1
    member: str
    step: int
    sha256: str = Field(description="of the tracker's file")
    report: TrackingReport | None = None
    error: str | None = Field(default=None, description="why it could not be evaluated")


class UnmeasuredTracker(NamedTuple):
    """A tracker that is yet to be evaluated."""

    path: Path
    member: str
    step: int
    result: Path


def trackers(run: RunFolder) -> list[UnmeasuredTracker]:
    """Return all trackers of a run by step, with where their results go."""
    found: list[UnmeasuredTracker] = []
    for member in run.members():
        for path in member.checkpoints_dir.glob("tracker_*.pt"):
            match = _TRACKER.fullmatch(path.name)
            if match is not None:
                step = int(match.group(1))
                result = member.path / "evaluations" / f"watched_{step}.json"
                found.append(UnmeasuredTracker(path, member.name, step, result))
    return sorted(found, key=lambda each: (each.step, each.member))


def waiting(run: RunFolder) -> list[UnmeasuredTracker]:
    """Return the trackers without a result."""
    return [each for each in trackers(run) if not each.result.exists()]


def results(run: RunFolder) -> list[WatchedTracker]:
    """Return what was found so far."""
    found: list[WatchedTracker] = []
    for each in trackers(run):
        if each.result.exists():
            try:
                found.append(WatchedTracker.model_validate_json(each.result.read_bytes()))
            except ValidationError as error:
                raise BadFile(
                    f"{each.result} holds no result of a tracker.", hint="Remove it to do it again."
                ) from error
    return found


class TrackerWatch:
    """Evaluates what waits; makes its environments at the first need."""

    def __init__(
        self,
        run: RunFolder,
        config: TrackingConfig,
        split: Split,
        *,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.run, self.config = run, config
        self.split: Split = split
        self._device, self._threads = device, threads
        self._library: MotionLibrary | None = None
        self._player: ClipPlayer | None = None

    def pass_over(self) -> Iterator[WatchedTracker]:
        """Evaluate everything that waits now, and write each result as soon as it is known."""
        for each in waiting(self.run):
            result = self._evaluated(each)
            each.result.parent.mkdir(parents=True, exist_ok=True)
            write_json(each.result, result)
            yield result

    def _evaluated(self, each: UnmeasuredTracker) -> WatchedTracker:
        digest = hashlib.sha256(each.path.read_bytes()).hexdigest()
        known = WatchedTracker(member=each.member, step=each.step, sha256=digest)
        try:
            tracker = load_tracker(each.path)
            report = self._ready().evaluate(tracker.to(self._device), self.split)
        except TelicError as error:
            # A tracker that cannot be read would be tried for ever.
            return known.model_copy(update={"error": str(error)})
        return known.model_copy(update={"report": report})

    def _ready(self) -> ClipPlayer:
        if self._player is None:
            self._library = open_motions(self.config)
            clips = played_clips(self.config, self._library, self.split)
            self._player = ClipPlayer(
                self.config, self._library, clips, device=self._device, threads=self._threads
            )
        return self._player


def watch_run(
    watch: TrackerWatch,
    *,
    once: bool,
    tell: Callable[[WatchedTracker], None],
    should_stop: Callable[[], bool],
) -> list[WatchedTracker]:
    """Evaluate trackers until the run has ended and nothing waits; returns all results.

    Args:
        watch: what evaluates.
        once: end after what is there now.
        tell: called with each result.
        should_stop: polled between trackers.
    """
    run = watch.run
    with RunLock(run.path / "watch.lock", f"The watch of {run.name}"):
        while not should_stop():
            is_over = once or status_of(run) != "running"
            for result in watch.pass_over():
                tell(result)
                if should_stop():
                    break
            else:
                if is_over and not waiting(run):
                    break
                time.sleep(_PAUSE_S)
    return results(run)
