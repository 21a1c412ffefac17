"""Hazards that act on the world: hardware, network, deletion, installing, new code, cost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.documents import missing_commands
from telic.studies.scan.hazard_rules import Findings, at, hazard, imports, train_calls
from telic.studies.scan.records import Evidence, HazardFinding
from telic.studies.scan.repository import Spot
from telic.studies.scan.switches import by_default
from telic.studies.scan.syntax import Call
from telic.studies.scan.vocabulary import VOCABULARY

_INSTALLS = re.compile(r"\bpip3?\b.*\binstall\b|\bapt(-get)?\b.*\binstall\b|\bconda\b.*\binstall\b")
_SHELLS = {"system", "run", "call", "check_call", "check_output", "Popen"}
_DELETES = {"shutil.rmtree", "os.remove", "os.unlink", "os.removedirs", "os.rmdir"}
_TREES = {"rmtree", "unlink", "remove", "rmdir"}
_RESULTS = re.compile(
    r"log|result|run|output|checkpoint|ckpt|save|experiment|model|train_dir|record|dir", re.I
)
_ASKED = re.compile(r"(overwrite|force|clear|clean|fresh|delete|remove|wipe|reset)", re.I)
_NETWORK_FLAG = re.compile(
    r"--?(track|use[-_]wandb|wandb|logger[ =]wandb|push[-_]to[-_]hub|hf[-_]repo)\b"
    r"|wandb login|logger[=:]wandb|report[-_]to[ =]wandb"
)


def actuates_hardware(found: Findings) -> Iterator[HazardFinding]:
    """Code that may move a machine, wherever it is."""
    seen = imports(found, "hardware", [*found.scan.repository.modules])
    serious = [each for each in seen if found.scan.tree.weight(each.path) >= 0.5] or seen
    if serious:
        names = sorted({each.note.removeprefix("imports ") for each in serious})
        yield hazard(
            "actuates_hardware", f"talks to real machines: {', '.join(names[:6])}", serious
        )


def network_by_default(found: Findings) -> Iterator[HazardFinding]:
    """Sinks, downloads and uploads that happen when nobody asks for them."""
    evidence = [
        each for sink in found.sinks if sink.default and sink.network for each in sink.evidence[:2]
    ]
    names = [sink.name for sink in found.sinks if sink.default and sink.network]
    near = found.scan.files(found.scan.train_reach)
    if found.scan.train:
        for path, call in _downloads(found, found.scan.any_train_reach):
            switch = by_default(found.scan, path, call, near)
            if switch.on and not call.guards:
                evidence.append(at(path, call.line, f"{call.name}(…)"))
                names.append(call.last)
    if evidence:
        unique = ", ".join(dict.fromkeys(names))
        yield hazard(
            "network_by_default", f"uses the network unless told not to: {unique}", evidence
        )


def _downloads(found: Findings, reach: dict[Spot, int]) -> Iterator[tuple[str, Call]]:
    downloads = VOCABULARY.table("downloads")
    for path, call in found.scan.calls(reach):
        if call.last in downloads["calls"] or call.name in downloads["roots"]:
            yield path, call


def network_via_documented_examples(found: Findings) -> Iterator[HazardFinding]:
    """Documented commands that switch an upload on."""
    told = [
        at(each.path, each.line, " ".join(each.words)[:120])
        for each in found.scan.documented
        if _NETWORK_FLAG.search(" ".join(each.words))
    ]
    if told:
        yield hazard(
            "network_via_documented_examples", "documented commands switch uploads on", told
        )


def dataset_needs_network(found: Findings) -> Iterator[HazardFinding]:
    """Training that fetches data or models."""
    reach = found.scan.any_train_reach
    seen = [at(path, call.line, f"{call.name}(…)") for path, call in _downloads(found, reach)]
    if not found.scan.train:
        roots = VOCABULARY.table("downloads")["roots"]
        seen = [
            at(path, call.line, f"{call.name}(…)")
            for path, call in found.scan.source_calls()
            if call.name in roots or call.last == "urlretrieve"
        ]
    if seen:
        yield hazard("dataset_needs_network", "training may download data or models", seen)


def eval_needs_network(found: Findings) -> Iterator[HazardFinding]:
    """Evaluation that fetches checkpoints."""
    reach = found.scan.eval_reach if found.scan.evaluate else {}
    seen = [at(path, call.line, f"{call.name}(…)") for path, call in _downloads(found, reach)]
    if seen:
        yield hazard("eval_needs_network", "evaluation may download checkpoints", seen)


def installs_packages_at_runtime(found: Findings) -> Iterator[HazardFinding]:
    """Code that installs packages while it runs."""
    seen: list[Evidence] = []
    for path, call in found.scan.source_calls():
        text = " ".join(str(each) for each in call.args)
        if path.rpartition("/")[2] not in {"setup.py", "noxfile.py"} and (
            (call.last in _SHELLS and _INSTALLS.search(text)) or call.name == "pip.main"
        ):
            seen.append(at(path, call.line, f"{call.name}(…)"))
    if seen:
        yield hazard("installs_packages_at_runtime", "installs packages while running", seen)


def deletes_results(found: Findings) -> Iterator[HazardFinding]:
    """Deletion of folders that hold results, or a flag that asks for it."""
    seen: list[Evidence] = []
    for path, call in train_calls(found):
        line = found.scan.tree.line(path, call.line)
        deletes = call.name in _DELETES or (call.last == "rmtree" and call.last in _TREES)
        if (deletes and (_RESULTS.search(line.partition("(")[2]) or call.last == "rmtree")) or (
            call.last in _SHELLS and re.search(r"rm -rf", " ".join(map(str, call.args)))
        ):
            seen.append(at(path, call.line, line[:120]))
    if seen:
        flags = [
            each.flag
            for entry in found.scan.train[:3]
            for each in found.scan.settings.on_entry(entry.path)
            if _ASKED.search(each.name)
        ]
        detail = f"; flags: {', '.join(flag for flag in flags if flag)}" if flags else ""
        yield hazard("deletes_results", f"removes folders or files of earlier runs{detail}", seen)


def executes_generated_code(found: Findings) -> Iterator[HazardFinding]:
    """Exec and eval of text."""
    seen = [
        at(path, call.line, f"{call.name}(…)")
        for path, call in train_calls(found)
        if call.name in {"exec", "eval", "builtins.exec", "builtins.eval"}
        and not (
            call.args and isinstance(call.args[0], str) and not call.args[0].startswith(("<", "{"))
        )
    ]
    if seen:
        yield hazard("executes_generated_code", "turns text into running code", seen)


def unpriced_llm_calls(found: Findings) -> Iterator[HazardFinding]:
    """Language models that cost money."""
    seen = imports(found, "language_models")
    if seen:
        yield hazard("unpriced_llm_calls", "calls language models, which may cost money", seen)


def documented_command_missing(found: Findings) -> Iterator[HazardFinding]:
    """Commands in the documents whose file is not there."""
    missing = missing_commands(found.scan.tree, found.scan.documented)
    if missing:
        names = ", ".join(each.target for each in missing[:5])
        seen = [at(each.path, each.line, " ".join(each.words)[:120]) for each in missing]
        yield hazard("documented_command_missing", f"documented but not in the tree: {names}", seen)


HARM = (
    actuates_hardware,
    network_by_default,
    network_via_documented_examples,
    dataset_needs_network,
    eval_needs_network,
    installs_packages_at_runtime,
    deletes_results,
    executes_generated_code,
    unpriced_llm_calls,
    documented_command_missing,
)
