"""Hazards that do harm or make a result say less than it seems to; one function a rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from telic.studies.scan.declared import DocumentedCommand
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.evaluation import eval_flag, turned_off
from telic.studies.scan.facts import CallSite, Handler
from telic.studies.scan.records import (
    HazardFinding,
    RepositoryAudit,
    SourceLine,
    quote,
)
from telic.studies.scan.repository import Spot
from telic.studies.scan.roles import consults
from telic.studies.scan.source import VOCABULARY

_SHOWN = 5


class Findings(NamedTuple):
    """What hazards build on: the reading, and the answers so far."""

    scan: RepositoryScan
    audit: RepositoryAudit


class Alarm(NamedTuple):
    """What a rule says, and the lines that show it."""

    detail: str
    evidence: Iterable[SourceLine] = ()


HazardRule = Callable[[Findings], Alarm | None]


class RuleBook(list[HazardRule]):
    """Rules in the order of the report; the name of each is the hazard it looks for."""

    def rule(self, rule: HazardRule) -> HazardRule:
        """Enter a rule."""
        self.append(rule)
        return rule


def find_hazards(rules: Iterable[HazardRule], found: Findings) -> Iterator[HazardFinding]:
    """Return what the rules say, with the first few lines of evidence of each."""
    for rule in rules:
        hazard = rule(found)
        if hazard:
            lines = tuple(hazard.evidence)[:_SHOWN]
            yield HazardFinding(id=rule.__name__, detail=hazard.detail, evidence=lines)


def where(evidence: Iterable[SourceLine], detail: str) -> Alarm | None:
    """Return a hazard when there are lines that show it."""
    lines = list(evidence)
    return Alarm(detail, lines) if lines else None


def quote_calls(calls: Iterable[CallSite]) -> list[SourceLine]:
    """Return where calls are made."""
    return [quote(call, f"{call.name}(…)") for call in calls]


def imports(found: Findings, group: str, paths: Iterable[str] | None = None) -> list[SourceLine]:
    """Return the imports of known packages of one group that are not the repository itself."""
    repository = found.scan.repository
    return [
        SourceLine(path=path, line=line, note=f"imports {package}")
        for path in (found.scan.source_files if paths is None else paths)
        for origin, line in repository.modules[path].import_lines.items()
        if (package := VOCABULARY.package(origin, group)) and repository.module(package) is None
    ]


def imported(lines: list[SourceLine], most: int | None = None) -> str:
    """Return the names of the packages that some lines import."""
    return ", ".join(sorted({line.note.removeprefix("imports ") for line in lines})[:most])


# What acts on the world: hardware, network, deletion, installing, new code, cost.

HARM = RuleBook()
_INSTALLS = re.compile(r"\bpip3?\b.*\binstall\b|\bapt(-get)?\b.*\binstall\b|\bconda\b.*\binstall\b")
_SHELLS = {"system", "run", "call", "check_call", "check_output", "Popen"}
_DELETES = {"os.remove", "os.unlink", "os.removedirs", "os.rmdir"}
_RESULTS = VOCABULARY.pattern("result_paths")
_ASKED = re.compile(r"(overwrite|force|clear|clean|fresh|delete|remove|wipe|reset)", re.I)
_NETWORK_FLAG = VOCABULARY.pattern("network_flags")


@HARM.rule
def actuates_hardware(found: Findings) -> Alarm | None:
    """Code that may move a machine, wherever it is."""
    lines = imports(found, "hardware", found.scan.repository.modules)
    serious = [line for line in lines if found.scan.tree.is_own(line.path)] or lines
    return where(serious, f"talks to real machines: {imported(serious, 6)}")


@HARM.rule
def network_by_default(found: Findings) -> Alarm | None:
    """Sinks, downloads, uploads and hosted models that are used when nobody asks for them."""
    scan = found.scan
    sinks = [sink for sink in found.audit.sinks if sink.default and sink.network]
    happening = scan.main.happening if scan.main else []
    calls = [call for call in happening if _fetches(scan, call) or _sends(scan, call)]
    calls += list(consults(scan.main)) if scan.main else []
    names = dict.fromkeys([*(sink.name for sink in sinks), *(call.last for call in calls)])
    evidence = [*(line for sink in sinks for line in sink.evidence[:2]), *quote_calls(calls)]
    return where(evidence, f"uses the network unless told not to: {', '.join(names)}")


def _fetches(scan: RepositoryScan, call: CallSite) -> bool:
    if call.last not in VOCABULARY.fetching or call.keywords.get("local_files_only") is True:
        return False
    names = scan.flow.outside(call) or [call.name]
    return any(map(VOCABULARY.is_download, names))


def _sends(scan: RepositoryScan, call: CallSite) -> bool:
    is_named = VOCABULARY.is_upload(call.name)
    return is_named and any(map(VOCABULARY.is_upload, scan.flow.outside(call)))


def _downloads(scan: RepositoryScan, reach: Iterable[Spot]) -> Iterator[CallSite]:
    return (call for call in scan.calls(reach) if _fetches(scan, call))


@HARM.rule
def network_via_documented_examples(found: Findings) -> Alarm | None:
    """Documented commands that switch an upload on."""
    commands = ((each, " ".join(each.words)) for each in found.scan.documented)
    told = [quote(each, text[:120]) for each, text in commands if _NETWORK_FLAG.search(text)]
    return where(told, "documented commands switch uploads on")


@HARM.rule
def dataset_needs_network(found: Findings) -> Alarm | None:
    """Training that fetches data or models."""
    scan = found.scan
    if scan.train:
        calls = _downloads(scan, scan.any_train_reach)
    else:
        calls = (call for call in scan.source_calls() if _fetches(scan, call))
    return where(quote_calls(calls), "training may download data or models")


@HARM.rule
def eval_needs_network(found: Findings) -> Alarm | None:
    """Evaluation that fetches checkpoints."""
    reach = found.scan.eval_reach if found.scan.evaluate else ()
    calls = quote_calls(_downloads(found.scan, reach))
    return where(calls, "evaluation may download checkpoints")


@HARM.rule
def installs_packages_at_runtime(found: Findings) -> Alarm | None:
    """Code that installs packages while it runs."""
    calls = (
        call
        for call in found.scan.source_calls()
        if call.name == "pip.main"
        or (call.last in _SHELLS and _INSTALLS.search(" ".join(map(str, call.args))))
    )
    builds = {"setup.py", "noxfile.py"}
    own = (call for call in calls if call.path.rpartition("/")[2] not in builds)
    return where(quote_calls(own), "installs packages while running")


@HARM.rule
def deletes_results(found: Findings) -> Alarm | None:
    """Deletion of folders that hold results, or a flag that asks for it."""
    scan = found.scan
    lines: list[SourceLine] = []
    for call in scan.training_calls():
        text = scan.tree.line(call.path, call.line)
        if (
            call.last == "rmtree"
            or (call.name in _DELETES and _RESULTS.search(text.partition("(")[2]))
            or (call.last in _SHELLS and "rm -rf" in " ".join(map(str, call.args)))
        ):
            lines.append(quote(call, text[:120]))
    asked = [
        setting.label
        for entry in scan.train[:3]
        for setting in scan.of(entry).accepted.flags
        if _ASKED.search(setting.name)
    ]
    flags = f"; flags: {', '.join(dict.fromkeys(asked))}" if asked else ""
    return where(lines, f"removes folders or files of earlier runs{flags}")


@HARM.rule
def executes_generated_code(found: Findings) -> Alarm | None:
    """Exec and eval of text, and code that a model wrote."""
    calls = (
        call
        for call in found.scan.training_calls()
        if call.name in {"exec", "eval", "builtins.exec", "builtins.eval"}
        and not _is_written_out(call.args[0] if call.args else None)
    )
    lines = quote_calls(calls)
    main = found.scan.main
    if main is not None and next(consults(main), None):
        lines += [
            quote(call, "writes a Python file that a model may have written")
            for call in main.happening
            if call.last == "open" and call.args and str(call.args[0]).endswith(".py")
        ]
    return where(lines, "turns text into running code")


def _is_written_out(value: object) -> bool:
    return isinstance(value, str) and not value.startswith(("<", "{"))


@HARM.rule
def unpriced_llm_calls(found: Findings) -> Alarm | None:
    """Language models that cost money."""
    main = found.scan.main
    lines = quote_calls(consults(main)) if main else []
    lines = lines or imports(found, "language_models")
    return where(lines, "calls language models, which may cost money")


@HARM.rule
def documented_command_missing(found: Findings) -> Alarm | None:
    """Commands in the documents whose file is not there."""
    missing = _missing_commands(found.scan)
    names = ", ".join(command.target for command in missing[:5])
    lines = [quote(command, " ".join(command.words)[:120]) for command in missing]
    return where(lines, f"documented but not in the tree: {names}")


def _missing_commands(scan: RepositoryScan) -> list[DocumentedCommand]:
    """Return documented commands whose file belongs to this repository and does not exist."""
    own = {path.partition("/")[0] for path in scan.tree.paths if "/" in path}
    missing: dict[str, DocumentedCommand] = {}
    for command in scan.documented:
        if command.resolved is None and scan.tree.place(command.path) != "vendored":
            head = command.target.removeprefix("./").replace(".", "/").partition("/")[0]
            if command.target.endswith(".py") or head in own:
                missing.setdefault(command.target, command)
    return list(missing.values())


# What makes a result say less than it seems to: evaluation, rewards, logging, seeds.

RESULTS = RuleBook()
_EVERYTHING = {"", "Exception", "BaseException"}
_SEED_ANY = (None, -1, "", "None")
_RANDOM = re.compile(r"time\.time|randint|urandom|getrandbits|time\(\)")


@RESULTS.rule
def exit_zero_on_crash(found: Findings) -> Alarm | None:
    """A handler around training after which the command ends as if nothing had happened."""
    scan = found.scan
    lines: list[SourceLine] = []
    for path in sorted({spot.path for entry in scan.train[:6] for spot in scan.of(entry).active}):
        facts = scan.repository.modules[path]
        for handler in facts.handlers:
            is_any = handler.caught.rpartition(".")[2] in _EVERYTHING
            if is_any and handler.swallows and _surrounds_training(scan, handler):
                note = f"except {handler.caught or 'anything'} around training"
                lines.append(quote(handler, note))
    return where(lines, "a crash may end with exit code 0")


def _surrounds_training(scan: RepositoryScan, handler: Handler) -> bool:
    """Whether what a handler watches trains, itself or further on."""
    facts = scan.repository.modules[handler.path]
    trained = scan.flow.training
    for call in facts.calls[handler.first : handler.last]:
        if scan.flow.trains(call) or scan.flow.takes_gradient_steps(call):
            return True
        for target in scan.resolver.targets(call):
            if isinstance(target, Spot) and not trained.keys().isdisjoint(
                scan.flow.reach([target])
            ):
                return True
    return False


@RESULTS.rule
def eval_script_broken(found: Findings) -> Alarm | None:
    """Evaluation code that does not parse or imports what the repository does not have."""
    scan = found.scan
    tops = {path.partition("/")[0] for path in scan.tree.python}
    for entry in scan.evaluate[:6]:
        for origin, line in scan.repository.modules[entry.path].import_lines.items():
            head, parent = origin.partition(".")[0], origin.rpartition(".")[0]
            inside = head in tops and scan.repository.module(head) is not None
            if inside and not _exists(scan, origin) and not _exists(scan, parent):
                place = SourceLine(path=entry.path, line=line, note=origin)
                return Alarm(f"{entry.path} imports {origin}, which does not exist", [place])
    return None


def _exists(scan: RepositoryScan, name: str) -> bool:
    folder = name.replace(".", "/")
    return (
        scan.repository.find(name) is not None
        or scan.repository.module(name) is not None
        or scan.tree.has(folder)
        or any(path.endswith(f"/{folder}") for path in scan.tree.folders)
    )


@RESULTS.rule
def eval_distribution_differs(found: Findings) -> Alarm | None:
    """Evaluation that switches off what training had on."""
    lines = [quote(each, f"{each.target} = {each.value}") for each in turned_off(found.scan)]
    names = ", ".join(dict.fromkeys(line.note for line in lines[:6]))
    return where(lines, f"evaluation differs from training: {names}")


@RESULTS.rule
def eval_no_metrics(found: Findings) -> Alarm | None:
    """Evaluation that writes no number about how well the policy did."""
    if (
        found.audit.evaluation.style != "script"
        or found.audit.evaluation.emits_scalars is not False
    ):
        return None
    return Alarm("evaluation prints or writes no score", found.audit.evaluation.evidence)


@RESULTS.rule
def eval_not_held_out(found: Findings) -> Alarm | None:
    """Evaluation on the very environment and seed of training."""
    lines = [
        quote(call, f"{call.name}({', '.join(map(str, call.args))})")
        for call in found.scan.training_calls()
        if call.last in {"evaluate_policy", "EvalCallback", "evaluate"}
        and any(value in ("<env>", "<envs>", "<self.env>") for value in call.args[:2])
    ]
    return where(lines, "evaluates on the training environment")


@RESULTS.rule
def train_and_eval_share_entrypoint(found: Findings) -> Alarm | None:
    """One command for both, told apart by a flag."""
    scan = found.scan
    flag = eval_flag(scan) if scan.train else None
    if flag:
        return Alarm(f"{flag.label} evaluates", [quote(flag, flag.label)])
    shared = {entry.path for entry in scan.train[:3]} & {entry.path for entry in scan.evaluate[:3]}
    return Alarm(f"{min(shared)} both trains and evaluates") if shared else None


@RESULTS.rule
def reward_transformed_for_training(found: Findings) -> Alarm | None:
    """The logged return may not be the task's reward."""
    scan = found.scan
    signs = [
        quote(call, "sign of the reward")
        for path in [*scan.near][:40]
        for call in scan.repository.modules[path].calls
        if call.name.endswith(".sign") and "reward" in scan.tree.line(path, call.line)
    ]
    lines = [*found.audit.sources.wrappers.evidence, *signs]
    return where(lines, "rewards are scaled, clipped or normalised")


@RESULTS.rule
def no_local_metric_file(found: Findings) -> Alarm | None:
    """Numbers that are nowhere on disk unless asked for."""
    local = any(
        sink.default and not sink.network and sink.kind != "stdout" for sink in found.audit.sinks
    )
    is_missing = found.scan.train and not local
    return Alarm("no metric file is written by default") if is_missing else None


@RESULTS.rule
def random_seed_by_default(found: Findings) -> Alarm | None:
    """A seed that differs from run to run unless given."""
    seeds = found.audit.seeds
    if not seeds.controllable or not found.scan.train:
        return None
    text = found.scan.tree.line(seeds.evidence[0].path, seeds.evidence[0].line)
    is_any = seeds.default in _SEED_ANY and type(seeds.default) is not bool
    if not is_any and not _RANDOM.search(text):
        return None
    return Alarm(f"{seeds.flag} has no fixed default", seeds.evidence)


@RESULTS.rule
def no_seed_control(found: Findings) -> Alarm | None:
    """Nothing on the command line or in the settings sets a seed."""
    is_missing = found.scan.train and not found.audit.seeds.controllable
    return Alarm("no seed setting was found") if is_missing else None
