"""How a trained policy is evaluated, and what evaluation leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import EvaluationFinding, quote
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import Setting
from telic.studies.scan.syntax import Assignment
from telic.studies.scan.vocabulary import VOCABULARY

_EVAL_FLAG = re.compile(
    r"^-{0,2}(eval|evaluate|test|play|play_only|play-only|eval_only|eval-only|inference|test_only)$"
)
_MODE_FLAG = re.compile(r"^-{0,2}(mode|command|cmd|phase)$")
_EMBEDDED = re.compile(
    r"^(evaluate|evaluate_policy|EvalCallback|run_evaluation|eval_policy|run_eval\w*|"
    r"_run_one_phase|run_one_phase|evaluate_agent|Evaluator|eval_step|validate_policy|eval_env)$"
)
_SCALARS = re.compile(
    r"^(print|info|log|add_scalar|write_scalar|writerow|dump|to_csv|savetxt|log_metrics)$"
)
_MEASURES = re.compile(r"reward|return|success|score|episode|metric|length|error", re.I)
_RANDOMISED = re.compile(
    r"(noise|rand|perturb|push|curriculum|corruption|disturb|friction|event|dropout|augment)", re.I
)
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
