"""Read a repository's files and imports statically, within size limits.

Links, pipes and binary files are never opened. The numbers of files, bytes and lines are limited,
so that reading takes seconds at most.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import cast

MAX_LINE = 1_000
_MAX_FILES, _MAX_DEPTH, _MAX_REACHED = 20_000, 8, 60
_MAX_BYTES, _MAX_TOTAL = 150_000, 6_000_000
_SKIPPED = frozenset(
    {
        *("node_modules", "site-packages", "__pycache__", "third_party", "vendor", "vendored"),
        *("build", "dist", "venv", "env", "wandb", "mlruns"),
    }
)
_IMPORT = re.compile(r"(?m)^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+)?import[ \t]+(\([^)]*\)|[^\n#]+)")
_ENDS = (".py", "/__init__.py", "/__main__.py")
_NOT_SCRIPTS = re.compile(
    r"(?:^|/)(?:tests?|docs?|conftest\.py|setup\.py|test_[^/]*|[^/]*_test\.py)(?:/|$)"
)


class SourceTree:
    """Files of a repository, read on demand within the limits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = tuple(_listed(root))
        self.scripts = [x for x in self.paths if x.endswith(".py") and not _NOT_SCRIPTS.search(x)]
        self._left = _MAX_TOTAL
        self._texts = dict.fromkeys(self.paths, cast("str | None", None))
        self._imports: dict[str, dict[str, str]] = {}

    def text(self, path: str) -> str:
        """Return the text of a file, or "" if it is missing, binary, too large or not a file."""
        known = self._texts.get(path, "")
        if known is not None:
            return known
        self._texts[path] = ""
        try:
            found = (self.root / path).lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > min(_MAX_BYTES, self._left):
                return ""
            content = (self.root / path).read_bytes()
        except OSError:
            return ""
        self._left -= len(content)
        if b"\0" not in content:
            lines = content.decode("utf-8", errors="replace").split("\n")
            text = "\n".join(line if len(line) <= MAX_LINE else "" for line in lines)
            self._texts[path] = text
        return self._texts[path] or ""

    def find(
        self, path: str, pattern: str | re.Pattern[str]
    ) -> Iterator[tuple[re.Match[str], str]]:
        """Yield each match of a pattern in a file with its location (path:line)."""
        text = self.text(path)
        for match in re.finditer(pattern, text):
            yield match, f"{path}:{text.count(chr(10), 0, match.start()) + 1}"

    def imports(self, path: str) -> dict[str, str]:
        """Return the dotted modules and names that a file imports, with their locations."""
        if path not in self._imports:
            found: dict[str, str] = {}
            for match, place in self.find(path, _IMPORT):
                base, names = match[1] or "", match[2].strip("() ")
                joint = "." if base.strip(".") else ""
                found |= {base: place} if joint else {}
                for name in names.split(","):
                    found |= {f"{base}{joint}{name.split()[0]}": place} if name.split() else {}
            self._imports[path] = found
        return self._imports[path]

    def imported(self, reach: Iterable[str], pattern: str) -> str | None:
        """Return the location of the first import of a matching module in any of the files."""
        names = (item for path in reach for item in self.imports(path).items())
        return next((place for name, place in names if re.fullmatch(pattern, name)), None)

    def reachable(self, *paths: str, most: int = _MAX_REACHED) -> list[str]:
        """Return the given files and all repository files that they import, breadth-first."""
        found = dict.fromkeys(path for path in paths if path in self._texts)
        waiting = list(found)
        for near in waiting:  # grows during iteration
            modules = [self.module(name, near) for name in self.imports(near)]
            modules += [str(each / "__init__.py") for each in PurePosixPath(near).parents]
            for module in modules:
                if module in self._texts and module not in found and len(found) < most:
                    found[module] = None
                    waiting.append(module)
        return waiting

    def module(self, name: str, importer: str = "") -> str | None:
        """Return the file of a module, or None if it is not part of the repository."""
        dotted, parts = name.lstrip("."), importer.split("/")[:-1]
        parents = ["/".join(parts[:end]) for end in range(len(parts), -1, -1)]
        level = len(name) - len(dotted)  # of a relative import
        folders = parents[level - 1 : level] if level else ["", "src", *parents]
        bases = [f"{folder}/{dotted.replace('.', '/')}".lstrip("/") for folder in folders]
        places = (base + end for base in bases for end in _ENDS)
        return next((place for place in places if place in self._texts), None)


def _listed(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(root, followlinks=False, onerror=lambda _: None):
        inside = Path(folder).relative_to(root)
        is_deep = len(inside.parts) >= _MAX_DEPTH
        kept = (name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        folders[:] = [] if is_deep else sorted(kept)
        for name in sorted(files):
            count += 1
            if count > _MAX_FILES:
                return
            yield (inside / name).as_posix()
