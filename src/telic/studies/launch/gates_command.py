"""G19 to G24: what is started is measured as agreed, confirmed, offline, reviewed and harmless."""

from __future__ import annotations

import re

from telic.studies.approvals import standing
from telic.studies.canonical import file_hash
from telic.studies.evidence.store import altered, latest
from telic.studies.launch.command import shell_problems
from telic.studies.launch.planning import launcher_is_confirmed
from telic.studies.launch.situation import Situation
from telic.studies.subjects import current_protocol_hash, metric_spec_hash
from telic.studies.validation.subject import Finding

_NEEDS_CONFIRMED = ("commands", "metrics", "seeds")
_GENERATED_KINDS = frozenset({"reward_engineering", "code", "algorithm", "environment_generation"})
_REFUSED_HAZARDS = {
    "installs_packages_at_runtime": "it installs packages while it runs",
    "deletes_results": "it deletes results",
}
_DESTRUCTIVE = re.compile(
    r"--?(?:delete|remove|wipe|purge|clean|overwrite|force[-_]?(?:delete|overwrite|clean)"
    r"|rm|reset[-_]?logs?|clear[-_]?(?:logs?|cache|results?))(?:=(?!false|0|no).*)?$",
    re.IGNORECASE,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "brew", "npm"})
_REMOVERS = frozenset({"rm", "rmdir", "shred", "dd", "mkfs", "truncate"})


def measure_is_unchanged(s: Situation) -> Finding:
    """G19: evaluator and metric files are those of the protocol, in the tree that runs."""
    problems: list[str] = []
    if current_protocol_hash(s.folder) != s.contract.evaluation.protocol_hash:
        problems.append("eval_protocol.yaml is not the agreed one")
    if metric_spec_hash(s.folder) != s.contract.metrics.spec_hash:
        problems.append("metric_spec.yaml is not the agreed one")
    trees = {s.folder.root, s.tree} if s.tree.is_dir() else {s.folder.root}
    for path, agreed in s.protocol.evaluator_files.items():
        for tree in sorted(trees):
            file = tree / path
            if not file.is_file() or file_hash(file) != agreed:
                problems.append(f"{file} is not the evaluator of the protocol")
    return Finding(tuple(problems), value=(s.contract.evaluation.protocol_hash or "")[:12])


def command_is_confirmed(s: Situation) -> Finding:
    """G20: the command comes from a confirmed adapter and needs no shell."""
    problems = [
        f"the adapter's {name} are {status}, not confirmed by a person"
        for name in _NEEDS_CONFIRMED
        if (status := _provenance(s, name)) != "confirmed"
    ]
    if not launcher_is_confirmed(s.adapter):
        problems.append("the adapter's launcher runs commands that no person confirmed")
    problems += shell_problems(s.command.argv)
    return Finding(tuple(problems), value=list(s.command.argv))


def network_is_settled(s: Situation) -> Finding:
    """G21: offline unless a person approved where it connects to."""
    wants = [each.kind for each in s.adapter.logging.sources if each.network and each.default]
    if s.network_approved:
        return Finding(value="approved")
    value = {"network": "offline", "neutralised": wants, "enforced_by": "environment"}
    return Finding(s.environment.problems, value=value)


def generated_code_is_reviewed(s: Situation) -> Finding:
    """G22: code that a model wrote was allowed, and somebody has looked at it."""
    change, origin = s.candidate.change, s.candidate.origin
    brings_code = bool(change.patch or change.files)
    if not brings_code or (origin.model is None and s.candidate.kind not in _GENERATED_KINDS):
        return Finding(value="no generated code")
    problems: list[str] = []
    allowed = s.contract.generated_code
    if allowed is None or not allowed.allowed:
        problems.append("the contract does not allow generated code")
    elif standing(s.folder, s.state, "generated_code").status != "approved":
        problems.append("generated_code is not approved")
    elif allowed.sandbox == "confined" and s.adapter.launcher.options.get("sandbox") != "confined":
        problems.append("the contract wants it confined, and this launcher does not confine")
    if not _is_reviewed(s):
        problems.append("no review of it passed")
    return Finding(tuple(problems))


def command_is_harmless(s: Situation) -> Finding:
    """G23: it moves no hardware, deletes nothing and installs nothing."""
    problems: list[str] = []
    for hazard in s.adapter.hazards:
        if hazard.id in _REFUSED_HAZARDS:
            problems.append(f"{_REFUSED_HAZARDS[hazard.id]} ({hazard.detail or hazard.id})")
        elif hazard.id == "actuates_hardware" and not _may_move(s):
            problems.append(f"it moves hardware ({hazard.detail}), which needs its own approval")
    return Finding((*problems, *word_problems(s.command.argv)))


def launcher_is_rendered(s: Situation) -> Finding:
    """G24: what starts it is written out, the same each time, and valid for its launcher."""
    again = s.launcher.render(s.order)
    problems = list(s.rendered.problems)
    if again.hash != s.rendered.hash:
        problems.append("the launcher writes something else each time")
    return Finding(tuple(problems), value=s.rendered.hash[:12])


def word_problems(argv: tuple[str, ...]) -> list[str]:
    """Return which words of a command delete or install."""
    names = [word.rsplit("/", 1)[-1] for word in argv]
    problems = [f"{word} destroys what is there" for word in argv if _DESTRUCTIVE.match(word)]
    if names[0] in _REMOVERS:
        problems.append(f"{argv[0]} removes files")
    # The program itself, or a module: python -m pip install.
    programs = {names[0], *(names[i + 1] for i, w in enumerate(argv[:-1]) if w == "-m")}
    if programs & _INSTALLERS and "install" in argv:
        problems.append(f"{' '.join(argv[:4])} installs packages")
    return problems


def _may_move(s: Situation) -> bool:
    held = standing(s.folder, s.state, "physical_actuation", s.request.candidate)
    return held.status == "approved"


def _provenance(s: Situation, name: str) -> str:
    """Return how sure the adapter is of a section: of all of it, or of the part that is used."""
    used = "smoke" if s.spec is s.adapter.commands.smoke else "train"
    held = s.adapter.provenance
    found = held.get(f"{name}.{used}") if name == "commands" else None
    found = found or held.get(name)
    return found.status if found else "unknown"


def _is_reviewed(s: Situation) -> bool:
    """Return whether the latest review is of this candidate as it is now, and found nothing."""
    sheet = latest(s.folder, s.state, "review", candidate=s.request.candidate)
    if sheet is None or altered(s.folder, s.state, [sheet.id]):
        return False
    is_same = sheet.payload.get("content_hash") == s.candidate.compute_hash()
    return is_same and sheet.payload.get("passed") is True
