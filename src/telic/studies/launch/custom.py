"""Start a run with commands that the adapter declares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telic.studies.errors import InvalidDocument
from telic.studies.launch.local import call
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    JobState,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)

_KNOWN: dict[str, JobState] = {
    "waiting": "waiting",
    "running": "running",
    "ended": "ended",
    "unknown": "unknown",
}


class CustomLauncher:
    """Declared argument lists for start, status and stop; each must hold `{nonce}`.

    `{command}` alone stands for the supervised command, word by word, and `{run_dir}` for the run
    folder. `status` prints waiting, running, ended or unknown.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the start command."""
        problems = [
            f'the custom launcher\'s "{name}" must be a list of words that holds {{nonce}}'
            for name in ("start", "status", "stop")
            if not any("{nonce}" in str(word) for word in self.options.get(name, ()))
        ]
        if problems:
            return RenderedLaunch((), problems=tuple(problems))
        words = self._words("start", order.nonce, order.folder)
        argv: list[str] = []
        for word in words:
            argv += supervised(order) if word == "{command}" else (word,)
        return RenderedLaunch(tuple(argv))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Run the start command; what it prints is the job's id."""
        permit.spend(order.nonce, order.argv_hash)
        said = call(self.render(order).argv, order)
        return JobHandle(job_id=said.splitlines()[-1] if said else order.job_name)

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Run the status command."""
        said = call(self._words("status", nonce, folder)).strip()
        return JobReport(_KNOWN.get(said, "unknown"), said)

    def stop(self, nonce: str, folder: Path) -> None:
        """Run the stop command."""
        call(self._words("stop", nonce, folder))

    def _words(self, name: str, nonce: str, folder: Path) -> tuple[str, ...]:
        words = tuple(str(each) for each in self.options.get(name, ()))
        if not any("{nonce}" in word for word in words):
            raise InvalidDocument(
                "E_LAUNCHER", f'The custom launcher has no "{name}" command that holds {{nonce}}.'
            )
        return tuple(w.replace("{nonce}", nonce).replace("{run_dir}", str(folder)) for w in words)
