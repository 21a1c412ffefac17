"""When a piece of work began, as its name says it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from telic.studies.names import written

_STAMP = re.compile(r"_(\d{8}_\d{6})(?:_|$)")


def began_at(name: str, request: Path) -> str:
    """Return when work began: from its id, or for a renamed folder from its request's file."""
    found = _STAMP.search(name)
    if found is None:
        return written(datetime.fromtimestamp(request.stat().st_mtime, UTC))
    return written(datetime.strptime(found[1], "%Y%m%d_%H%M%S").replace(tzinfo=UTC))
