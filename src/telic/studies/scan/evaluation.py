"""How a trained policy is evaluated, and what evaluation leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.context import Scan
from telic.studies.scan.records import EvaluationFinding, Evidence
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
_OFF = (False, None, 0, 0.0, "none", "off")


def find_evaluation(scan: Scan) -> EvaluationFinding:
    """Return how evaluation happens: by a script, by a flag, inside training, or not at all."""
    if scan.evaluate:
        return _by_script(scan)
    flag = eval_flag(scan)
    if flag:
        evidence = Evidence(path=flag.path, line=flag.line, note=f"flag {flag.flag or flag.name}")
        return EvaluationFinding(
            style="same_entry",
            flag=flag.flag or flag.name,
            evidence=(evidence,),
            emits_scalars=_emits(scan, scan.train_reach),
            needs_network=_network(scan, scan.train_reach),
        )
    embedded = list(_embedded(scan))
    if embedded:
        return EvaluationFinding(style="embedded", emits_scalars=True, evidence=tuple(embedded[:4]))
    return EvaluationFinding(style="none")


def _by_script(scan: Scan) -> EvaluationFinding:
    reach = scan.eval_reach
    entry = scan.evaluate[0]
    headless = next(
        (each for each in scan.settings.on_entry(entry.path) if _DISPLAY.search(each.name)), None
    )
    return EvaluationFinding(
        style="script",
        emits_scalars=_emits(scan, reach),
        headless=_is_headless(headless),
        needs_network=_network(scan, reach),
        turned_off=tuple(dict.fromkeys(each.target for _, each in turned_off(scan)))[:20],
        evidence=entry.evidence[:4],
    )


def _is_headless(setting: Setting | None) -> bool | None:
    if setting is None or not setting.known:
        return None
    shows = "headless" in setting.name or "no" in setting.name.lstrip("-").split("_")[0:1]
    return bool(setting.default) if shows else not setting.default


def eval_flag(scan: Scan) -> Setting | None:
    """Return the flag of the training command that makes it evaluate instead."""
    near = scan.files(scan.train_reach)
    told = _told_flag(scan)
    if told:
        return told
    for setting in scan.settings.flags + scan.settings.fields:
        if setting.path not in near[:12] or not setting.flag:
            continue
        bare = setting.name.rpartition(".")[2]
        if _EVAL_FLAG.match(bare):
            return setting
        if _MODE_FLAG.match(bare) and re.search(
            r"\b(eval\w*|test|play|enjoy)\b", scan.tree.line(setting.path, setting.line)
        ):
            return setting
    return None


def _told_flag(scan: Scan) -> Setting | None:
    """Return a word of a documented training command that asks for evaluation: `test=True`."""
    files = {entry.path for entry in scan.train[:3]}
    for each in scan.documented:
        for word in each.words if each.resolved in files else ():
            name, equals, value = word.partition("=")
            if _EVAL_FLAG.match(name) and (not equals or value.lower() == "true"):
                return Setting(name, None, False, word, each.path, each.line)
    return None


def _embedded(scan: Scan) -> Iterator[Evidence]:
    for path, call in scan.calls(scan.any_train_reach):
        if _EMBEDDED.match(call.last):
            yield Evidence(path=path, line=call.line, note=f"{call.name}(…) while training")


def _emits(scan: Scan, reach: dict[Spot, int]) -> bool:
    """Whether evaluation writes or prints a number that says how well the policy did."""
    for path, call in scan.calls(reach):
        if _SCALARS.match(call.last):
            line = scan.tree.line(path, call.line)
            if _MEASURES.search(line) and ("{" in line or "," in line or "%" in line):
                return True
    return False


def _network(scan: Scan, reach: dict[Spot, int]) -> bool:
    downloads = VOCABULARY.table("downloads")
    return any(
        call.last in downloads["calls"] or call.name in downloads["roots"]
        for _, call in scan.calls(reach)
    )


def turned_off(scan: Scan) -> Iterator[tuple[str, Assignment]]:
    """Return assignments in evaluation code that switch training randomisation off."""
    for entry in scan.evaluate[:4]:
        for each in scan.repository.modules[entry.path].assignments:
            if "." in each.target and _RANDOMISED.search(each.target) and _is_off(each.value):
                yield entry.path, each
    for path, each in scan.repository.assignments(scan.source_files):
        # a configuration for playing that derives from the one for training
        in_play = re.search(r"(play|eval|test)", each.scope, re.I)
        if (
            in_play
            and "." in each.target
            and _RANDOMISED.search(each.target)
            and _is_off(each.value)
        ):
            yield path, each


def _is_off(value: object) -> bool:
    return isinstance(value, bool | int | float | str | None) and value in _OFF
