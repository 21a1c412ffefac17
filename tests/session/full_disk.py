"""A session on a real disk that is filled up while it trains, then freed; see test_faults.

Run inside its own mount namespace: python full_disk.py FOLDER. Prints what happened as JSON.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from telic.core.events import Event, TrainProgress
from telic.errors import ResourceError
from telic.session.loop import run

ROOM = 400_000_000
REQUEST = {"seeds": (1, 2), "episodes": 4, "steps": 30_000, "iterations": 1}


def main(folder: Path) -> None:
    """Run a session twice: once until the disk is full, once with room again."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder], check=True)
    filler = folder / "filler"

    def fill(event: Event) -> None:
        if isinstance(event, TrainProgress) and not filler.exists():
            free = os.statvfs(folder)
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - 16_384)

    said = None
    try:
        run("run forward", runs_dir=folder / "runs", on_event=fill, **REQUEST)
    except ResourceError as error:
        said = str(error)
    filler.unlink()
    session = run("run forward", runs_dir=folder / "runs", **REQUEST)
    print(
        json.dumps(
            {
                "said": said,
                "outcome": session.summary.outcome,
                "sessions": len(list((folder / "runs").glob("session_*"))),
                "score": session.summary.score,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
