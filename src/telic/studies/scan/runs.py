"""What a run is given and leaves behind, and how a trained policy is evaluated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from telic.studies import git_read
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import (
    EvaluationFinding,
    OutputFinding,
    SeedFinding,
    Sink,
    SourceLine,
    quote,
)
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import Setting, bare
from telic.studies.scan.syntax import Assignment, is_symbol, is_table
from telic.studies.scan.vocabulary import VOCABULARY

_SEED = re.compile(r"^(seed|random_seed|train_seed|rng_seed|env_seed|seeds|torch_seed)$")
_SEEDING = VOCABULARY.pattern("seeding_calls")
_DETERMINISTIC = VOCABULARY.pattern("determinism_words")
_FOLDERS = VOCABULARY.words("run_folders")
_CHECKPOINT = VOCABULARY.pattern("checkpoint_names")
_SAVES = re.compile(r"^(save\w*|dump|export\w*)$")
_CANONICAL = VOCABULARY.patterns("metrics")
_WRITES = VOCABULARY.words("metric_writers")
_VARIABLE = frozenset("{}*<>$%~")
_YAML = (".yaml", ".yml")


def find_seeds(scan: RepositoryScan) -> SeedFinding:
    """Return the seed flag, its default, and whether anything is seeded with it."""
    settings = [
        setting
        for setting in scan.declared()
        if setting.flag and _SEED.match(bare(setting.name)) and scan.tree.is_own(setting.path)
    ]
    settings += [each for each in scan.settings.named("seed") if each.path.endswith(_YAML)]
    best = min(settings, key=lambda setting: _order(scan, setting), default=None)
    seeding = next((call for call in scan.training_calls() if _SEEDING.match(call.last)), None)
    evidence = [quote(best, best.label)] if best else []
    if seeding:
        evidence.append(quote(seeding, f"{seeding.name}(…)"))
    value: Any = best.default if best and best.known else None
    return SeedFinding(
        flag=best.label if best else None,
        default=value if isinstance(value, int | float | str | bool) else None,
        controllable=best is not None,
        claims_determinism=any(
            _DETERMINISTIC.search(scan.tree.text(path)) for path in scan.near or scan.source_files
        ),
        evidence=tuple(evidence),
    )


def _order(scan: RepositoryScan, setting: Setting) -> tuple[bool, bool, int, str]:
    path = setting.path
    return path not in scan.near, not setting.flag, scan.near.get(path, 0), path


def find_outputs(scan: RepositoryScan) -> OutputFinding:
    """Return where a run writes, and what its checkpoints are called."""
    near = list(scan.train_files) or scan.source_files
    folder, evidence = None, list[SourceLine]()
    for each in scan.assignments(near):
        name = each.target.rpartition(".")[2].lstrip("_")
        if name in _FOLDERS and _is_template(each.value):
            folder = each.value
            evidence.append(quote(each, f'{name} = "{folder}"'))
            break
    checkpoint = None
    for call in (call for path in near for call in scan.repository.modules[path].calls):
        if _SAVES.match(call.last) or "join" in call.last:
            texts = (value for value in call.args if isinstance(value, str))
            checkpoint = next((text for text in texts if _CHECKPOINT.search(text)), None)
            if checkpoint:
                name = re.sub(r"\{[^}]*\}", "*", checkpoint).rpartition("/")[2]
                checkpoint = f"**/{name}"
                evidence.append(quote(call, f"{call.name}(…)"))
                break
    return OutputFinding(
        run_dir_template=folder, checkpoint_glob=checkpoint, evidence=tuple(evidence)
    )


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and not is_symbol(value) and ("/" in value or "{" in value)


def find_unignored(root: Path, outputs: OutputFinding, sinks: tuple[Sink, ...]) -> tuple[str, ...]:
    """Return folders and files that runs write to, as far as the text says, and git would show.

    After a run the tree would not be clean. Empty outside of git. What starts with a variable is
    not known and left out.
    """
    if not git_read.is_repository(root):
        return ()
    templates = (
        outputs.run_dir_template,
        outputs.checkpoint_glob,
        *(sink.path_template for sink in sinks),
    )
    places = dict.fromkeys(place for each in templates if each and (place := _fixed(each)))
    # asked for something inside, since a pattern such as logs/ speaks of folders only
    return tuple(place for place in places if not git_read.ignores(root, f"{place}/x"))


def _fixed(template: str) -> str | None:
    """Return the part of a path before its first variable; None when that is not in the tree."""
    if template.startswith(("/", "..")):
        return None
    parts: list[str] = []
    for part in template.removeprefix("./").rstrip("/").split("/"):
        if not _VARIABLE.isdisjoint(part):
            break
        parts.append(part)
    return "/".join(parts) or None


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


# ---------------------------------------------------------------------------- evaluation

_EVAL_FLAG = VOCABULARY.pattern("eval_flags")
_MODE_FLAG = re.compile(r"^-{0,2}(mode|command|cmd|phase)$")
_EMBEDDED = VOCABULARY.pattern("embedded_evaluation")
_SCALARS = VOCABULARY.pattern("scalar_writers")
_MEASURES = re.compile(r"reward|return|success|score|episode|metric|length|error", re.I)
_RANDOMISED = VOCABULARY.pattern("randomised_settings")
_DISPLAY = re.compile(r"headless|render|viewer|display|no_render|visualize", re.I)
_EVALUATES = re.compile(r"\b(eval\w*|test|play|enjoy)\b")
_PLAYS = re.compile(r"(play|eval|test)", re.I)
_OFF = (False, None, 0, 0.0, "none", "off")


def find_evaluation(scan: RepositoryScan) -> EvaluationFinding:
    """Return how evaluation happens: by a script, by a flag, inside training, or not at all."""
    if scan.evaluate:
        entry, reach = scan.evaluate[0], scan.eval_reach
        displays = [s for s in scan.settings.on_entry(entry.path) if _DISPLAY.search(s.name)]
        return EvaluationFinding(
            style="script",
            emits_scalars=_emits(scan, reach),
            headless=_is_headless(displays[0]) if displays else None,
            needs_network=_needs_network(scan, reach),
            turned_off=tuple(dict.fromkeys(each.target for each in turned_off(scan)))[:20],
            evidence=entry.evidence[:4],
        )
    flag = eval_flag(scan)
    if flag:
        return EvaluationFinding(
            style="same_entry",
            flag=flag.label,
            evidence=(quote(flag, f"flag {flag.label}"),),
            emits_scalars=_emits(scan, scan.train_reach),
            needs_network=_needs_network(scan, scan.train_reach),
        )
    embedded = tuple(
        quote(call, f"{call.name}(…) while training")
        for call in scan.calls(scan.any_train_reach)
        if _EMBEDDED.match(call.last)
    )
    if embedded:
        return EvaluationFinding(style="embedded", emits_scalars=True, evidence=embedded[:4])
    return EvaluationFinding(style="none")


def _is_headless(setting: Setting) -> bool | None:
    if not setting.known:
        return None
    hides = "headless" in setting.name or "no" in setting.name.lstrip("-").split("_")[0:1]
    return bool(setting.default) if hides else not setting.default


def eval_flag(scan: RepositoryScan) -> Setting | None:
    """Return the flag of the training command that makes it evaluate instead."""
    told = _told_flag(scan)
    if told:
        return told
    near = [*scan.near][:12]
    for setting in scan.declared():
        if setting.path not in near or not setting.flag:
            continue
        bare = setting.name.rpartition(".")[2]
        line = scan.tree.line(setting.path, setting.line)
        if _EVAL_FLAG.match(bare) or (_MODE_FLAG.match(bare) and _EVALUATES.search(line)):
            return setting
    return None


def _told_flag(scan: RepositoryScan) -> Setting | None:
    """Return a word of a documented training command that asks for evaluation: `test=True`."""
    files = {entry.path for entry in scan.train[:3]}
    for command in scan.documented:
        for word in command.words if command.resolved in files else ():
            name, equals, value = word.partition("=")
            if _EVAL_FLAG.match(name) and (not equals or value.lower() == "true"):
                return Setting(name, None, False, word, command.path, command.line)
    return None


def _emits(scan: RepositoryScan, reach: dict[Spot, int]) -> bool:
    """Whether evaluation writes or prints a number that says how well the policy did."""
    for call in scan.calls(reach):
        if _SCALARS.match(call.last):
            line = scan.tree.line(call.path, call.line)
            if _MEASURES.search(line) and ("{" in line or "," in line or "%" in line):
                return True
    return False


def _needs_network(scan: RepositoryScan, reach: dict[Spot, int]) -> bool:
    return any(VOCABULARY.is_download(call.name) for call in scan.calls(reach))


def turned_off(scan: RepositoryScan) -> Iterator[Assignment]:
    """Return assignments in evaluation code that switch training randomisation off."""
    entries = [entry.path for entry in scan.evaluate[:4]]
    # also a configuration for playing that derives from the one for training
    playing = (each for each in scan.assignments(scan.source_files) if _PLAYS.search(each.scope))
    for each in (*scan.assignments(entries), *playing):
        if "." in each.target and _RANDOMISED.search(each.target) and _is_off(each.value):
            yield each


def _is_off(value: object) -> bool:
    return isinstance(value, bool | int | float | str | None) and value in _OFF
