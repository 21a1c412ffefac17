"""The built pages in the package belong to the sources in web/."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "telic" / "web" / "static"
SINGLE = ("index.html", "package.json", "tsconfig.json", "vite.config.ts", "vite.site.config.ts")
GENERATED = ("schema.json", "schema.ts")


def sources_hash(root: Path) -> str:
    """Return the hash that web/scripts/stamp.mjs writes next to the built files."""
    web = root / "web"
    files = [web / name for name in SINGLE] + [root / "src" / "telic" / "report" / "colors.css"]
    files += [path for part in ("src", "public") for path in (web / part).rglob("*")]
    kept = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in files
        if path.is_file() and path.name not in GENERATED and not path.name.endswith(".test.ts")
    )
    whole = hashlib.sha256()
    for name, path in kept:
        inside = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{name}\n{inside}\n".encode())
    return whole.hexdigest()


def test_the_built_pages_are_those_of_the_sources() -> None:
    built = (STATIC / "sources.sha256").read_text().strip()
    assert built == sources_hash(ROOT), "web/ was changed: build it with `make web` and commit"
