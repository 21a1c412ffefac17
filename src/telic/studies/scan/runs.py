"""What a run is given and leaves behind: seeds, folders, checkpoints, the names of its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from telic.studies.scan.commands import SeedSetting, find_seed
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import CallSite, Unknown, is_plain, is_symbol, is_table
from telic.studies.scan.records import OutputFinding, SeedFinding, SourceLine, quote
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import bare
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_SEED = re.compile(r"^(seed|random_seed|train_seed|rng_seed|env_seed|seeds|torch_seed)$")
_SEEDING = VOCABULARY.pattern("seeding_calls")
_DETERMINISTIC = VOCABULARY.pattern("determinism_words")
_FOLDERS = VOCABULARY.words("run_folders")
_CHECKPOINT = VOCABULARY.pattern("checkpoint_names")
_SAVES = re.compile(r"^(save\w*|dump|export\w*)$")
_CANONICAL = VOCABULARY.patterns("metrics")
_WRITES = VOCABULARY.words("metric_writers")
_BOARDS = VOCABULARY.words("tensorboard_writers")
_HOLE = re.compile(r"\{([^{}]*)\}")
_DEPTH = 5


def find_seeds(scan: RepositoryScan) -> SeedFinding:
    """Return how the training command is seeded, with what holds when nothing is given."""
    main = scan.main
    seed = find_seed(main) if main else _of_library(scan)
    calls = scan.calls(scan.train_reach) if main else scan.source_calls()
    seeding = next((call for call in calls if _SEEDING.match(call.last)), None)
    evidence = [SourceLine(path=seed.path, line=seed.line, note=seed.label)] if seed else []
    if seeding:
        evidence.append(quote(seeding, f"{seeding.name}(…)"))
    return SeedFinding(
        flag=seed.label if seed else None,
        default=_plain(_effective(scan, main, seed)) if seed and seed.known else None,
        controllable=seed is not None,
        words=seed.words if seed else (),
        claims_determinism=any(
            _DETERMINISTIC.search(scan.tree.text(path)) for path in scan.near or scan.source_files
        ),
        evidence=tuple(evidence),
    )


def _of_library(scan: RepositoryScan) -> SeedSetting | None:
    for each in scan.declared():
        if each.flag and _SEED.match(bare(each.name)) and scan.tree.is_own(each.path):
            return SeedSetting((), each.label, each.default, each.known, each.path, each.line)
    return None


def _effective(scan: RepositoryScan, main: Situation | None, seed: SeedSetting) -> Any:
    """The seed's value; a flag that is not given leaves it to the configuration."""
    if seed.default is not None or main is None or seed.flag is None:
        return seed.default
    composed = main.composition.get(bare(seed.flag.key))
    if composed is not None and composed.value is not None:
        return composed.value
    paths = main.defaults.paths
    fields = [
        each
        for each in scan.settings.fields
        if bare(each.name) == seed.flag.name and each.path in paths and "." in each.name
    ]
    known = [each.default for each in fields if isinstance(each.default, int)]
    return known[0] if known and _is_handed_on(scan, main, seed.flag.name) else None


def _is_handed_on(scan: RepositoryScan, main: Situation, name: str) -> bool:
    """Whether the flag's value is put in the place of a configuration's own."""
    for path in main.defaults.paths:
        for each in scan.repository.modules[path].assignments:
            is_flag = is_symbol(each.value) and each.value.strip("<>").endswith(f".{name}")
            target, _, last = each.target.rpartition(".")
            if last == name and target and is_flag and each.value.strip("<>") != each.target:
                return True
    return False


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None


# ---------------------------------------------------------------------------- outputs


def find_outputs(scan: RepositoryScan) -> OutputFinding:
    """Return where a run writes, and what its checkpoints are called."""
    near = list(scan.train_files) or scan.source_files
    evidence: list[SourceLine] = []
    folder = checkpoint = None
    for place, template in _folders(scan, near):
        folder = template
        evidence.append(place)
        break
    calls = scan.calls(scan.any_train_reach) if scan.train else scan.source_calls()
    for call in calls:
        if _SAVES.match(call.last) or "join" in call.last:
            texts = (value for value in call.args if isinstance(value, str))
            saved = next((text for text in texts if _CHECKPOINT.search(text)), None)
            if saved:
                checkpoint = "**/" + _HOLE.sub("*", saved).rpartition("/")[2]
                evidence.append(quote(call, f"{call.name}(…)"))
                break
    return OutputFinding(
        run_dir_template=folder, checkpoint_glob=checkpoint, evidence=tuple(evidence)
    )


def _folders(scan: RepositoryScan, near: list[str]) -> Iterator[tuple[SourceLine, str]]:
    """Folders that a run makes: as they are assigned, else as they are handed to what writes."""
    for each in scan.assignments(near):
        name = each.target.rpartition(".")[2].lstrip("_")
        is_template = isinstance(each.value, str) and not is_symbol(each.value)
        if name in _FOLDERS and is_template and ("/" in each.value or "{" in each.value):
            full = expanded(scan, each.value, each.path, each.scope)
            yield quote(each, f'{name} = "{full}"'), full
    main = scan.main
    for call, text in written_paths(main) if main else ():
        full = expanded(scan, text, call.path, call.scope)
        if "/" in full:
            yield quote(call, f"{call.name}({full})"), full


def written_paths(situation: Situation) -> Iterator[tuple[CallSite, str]]:
    """Return what the command writes to by default, as it is spelled at the call."""
    for call in situation.happening:
        values = [*call.args[:2], call.keywords.get("log_dir"), call.keywords.get("logdir")]
        if call.last == "open":
            mode = call.args[1] if len(call.args) > 1 else call.keywords.get("mode", "r")
            if not isinstance(mode, str) or not set(mode) & set("wax"):
                continue
            values = [call.args[0]] if call.args else []
        elif call.last not in _BOARDS and not re.match(
            r"^(save\w*|makedirs|mkdir|configure|set_logger|dump)$", call.last
        ):
            continue
        for value in values:
            if isinstance(value, str):
                yield call, "{" + value.strip("<>") + "}" if is_symbol(value) else value


def expanded(scan: RepositoryScan, template: str, path: str, scope: str, depth: int = 0) -> str:
    """Return a path with what its variables stand for, as far as the text tells."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if depth < _DEPTH:
            inner = _assigned_text(scan, name, path, scope)
            if inner is not None and inner != template:
                return expanded(scan, inner, path, scope, depth + 1)
            if scan.main is not None:
                value = scan.main.defaults.value(path, scope, name)
                if isinstance(value, str) and is_plain(value) and "{" not in value:
                    return value
                if isinstance(value, Unknown) or value is None:
                    return match[0]
                return str(value) if isinstance(value, int | float) else match[0]
        return match[0]

    return _HOLE.sub(fill, template)


def _assigned_text(scan: RepositoryScan, name: str, path: str, scope: str) -> str | None:
    """The text that a variable is given, a call as the name of what it calls in braces."""
    values: list[Any] = []
    if name.startswith("self."):
        owner = scope.rpartition(".")[0]
        held = scan.resolver.links.held.get(Spot(path, owner), {})
        values = [each.value for each in held.get(name.removeprefix("self."), ())]
    while not values:
        values = [each.value for each in scan.repository.assigned[Spot(path, scope)].get(name, ())]
        if not scope:
            break
        scope = scope.rpartition(".")[0]
    for value in values:
        if isinstance(value, str):
            return "{" + value.strip("<>") + "}" if is_symbol(value) else value
    return None


def find_metrics(scan: RepositoryScan) -> dict[str, str]:
    """Return the logged key of each canonical metric, from what the code writes."""
    metrics: dict[str, str] = {}
    for path in dict.fromkeys([*scan.train_files, *scan.source_files]):
        facts = scan.repository.modules[path]
        logged = [call.args[0] for call in facts.calls if call.last in _WRITES and call.args]
        keys = [*logged, *(key for value in logged if is_table(value) for key in value)]
        keys += [each.target.split(".", 1)[-1] for each in facts.assignments if "/" in each.target]
        for key in keys:
            if isinstance(key, str) and not is_symbol(key):
                for canonical, pattern in _CANONICAL.items():
                    if pattern.search(key):
                        metrics.setdefault(canonical, key)
    return dict(sorted(metrics.items()))
