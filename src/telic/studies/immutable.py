"""Files that are written once: evidence, audits, decisions, revisions, agreed contracts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from telic.storage.disk import disk_errors
from telic.storage.files import TEMPORARY_MARK, write_json
from telic.studies.errors import BrokenIntegrity


def write_once(path: Path, value: Any) -> None:
    """Write a JSON file that must not change; the same content again is fine.

    Raises BrokenIntegrity E_IMMUTABLE when there is a file with other content.
    """
    fresh = path.with_name(f"{TEMPORARY_MARK}once-{os.getpid()}-{path.name}")
    write_json(fresh, value)
    try:
        with disk_errors(path):
            # A link, unlike a rename, never replaces what is there.
            os.link(fresh, path)
    except FileExistsError:
        if path.read_bytes() != fresh.read_bytes():
            raise BrokenIntegrity(
                "E_IMMUTABLE",
                f"{path} was written before with other content.",
                hint="Such files never change: write a new one.",
            ) from None
    finally:
        fresh.unlink(missing_ok=True)
