"""Hazards of what must be installed first: versions, abandoned parts, optional packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.hazard_rules import Findings, at, hazard, imports
from telic.studies.scan.packaging import requirements
from telic.studies.scan.records import Evidence, HazardFinding
from telic.studies.scan.vocabulary import VOCABULARY

_ACTIVATES = re.compile(
    r"conda activate|source \S*(activate|setup)\S*|isaaclab\.sh|python\.sh|module load"
)


def env_version_floats(found: Findings) -> Iterator[HazardFinding]:
    """Environment packages without a version bound."""
    known = {
        name.replace("_", "-").lower() for name in VOCABULARY.table("environments")["packages"]
    }
    seen = [
        at(each.path, each.line, f"{each.name} {each.bound}".strip())
        for each in requirements(found.scan.tree)
        if each.name in known
        and (not each.bound or (each.bound.startswith(("@", ">")) and "<" not in each.bound))
    ]
    if seen:
        yield hazard("env_version_floats", "environment packages are not pinned", seen)


def unmaintained_part(found: Findings) -> Iterator[HazardFinding]:
    """Packages nobody looks after any more."""
    seen = imports(found, "unmaintained")
    if seen:
        names = sorted({each.note.removeprefix("imports ") for each in seen})
        yield hazard("unmaintained_part", f"rests on {', '.join(names)}", seen)


def behaviour_depends_on_installed_packages(found: Findings) -> Iterator[HazardFinding]:
    """Imports that are forgiven when missing."""
    seen: list[Evidence] = []
    for path in found.scan.files(found.scan.any_train_reach):
        facts = found.scan.repository.modules[path]
        seen += [
            at(path, facts.import_lines[origin], f"{origin} is optional")
            for origin in sorted(facts.optional_imports)
            if found.scan.repository.module(origin.partition(".")[0]) is None
        ]
    if seen:
        names = ", ".join(dict.fromkeys(each.note.split()[0] for each in seen[:6]))
        yield hazard("behaviour_depends_on_installed_packages", f"changes with {names}", seen)


def env_activation_required(found: Findings) -> Iterator[HazardFinding]:
    """Something has to be entered before the command works."""
    for path in found.scan.tree.paths:
        name = path.rpartition("/")[2].lower()
        if name.startswith("readme") or (
            path.startswith("docs/") and name.endswith((".md", ".rst"))
        ):
            match = _ACTIVATES.search(found.scan.tree.text(path))
            if match:
                line = found.scan.tree.text(path)[: match.start()].count("\n") + 1
                yield hazard("env_activation_required", match[0], [at(path, line, match[0])])
                return


PACKAGES = (
    env_version_floats,
    unmaintained_part,
    behaviour_depends_on_installed_packages,
    env_activation_required,
)
