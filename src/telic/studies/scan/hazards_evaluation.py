"""Hazards that make a result say less than it seems to: evaluation, rewards, logging, seeds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.evaluation import eval_flag, turned_off
from telic.studies.scan.hazard_rules import Findings, at, hazard, train_calls
from telic.studies.scan.records import Evidence, HazardFinding

_EVERYTHING = {"", "Exception", "BaseException"}
_SEED_ANY = (None, -1, "", "None")
_RANDOM = re.compile(r"time\.time|randint|urandom|getrandbits|time\(\)")


def exit_zero_on_crash(found: Findings) -> Iterator[HazardFinding]:
    """A handler around training that swallows the error, or an exit that always says success."""
    files = set(found.scan.files(found.scan.reach(found.scan.train[:6], depth=2)))
    seen: list[Evidence] = []
    for path in sorted(files):
        for each in found.scan.repository.modules[path].handlers:
            whole = each.caught.rpartition(".")[2] in _EVERYTHING
            if (
                whole
                and each.swallows
                and {"learn", "train", "run_experiment", "fit"} & set(each.tried)
            ):
                seen.append(
                    at(path, each.line, f"except {each.caught or 'anything'} around training")
                )
        seen += [
            at(path, call.line, "os._exit(0)")
            for call in found.scan.repository.modules[path].calls
            if call.name == "os._exit" and call.args[:1] == (0,)
        ]
    if seen:
        yield hazard("exit_zero_on_crash", "a crash may end with exit code 0", seen)


def eval_script_broken(found: Findings) -> Iterator[HazardFinding]:
    """Evaluation code that does not parse or imports what the repository does not have."""
    scan = found.scan
    tops = {path.partition("/")[0] for path in scan.tree.python}
    for entry in scan.evaluate[:6]:
        for origin, line in scan.repository.modules[entry.path].import_lines.items():
            head = origin.partition(".")[0]
            parent = origin.rpartition(".")[0]
            inside = head in tops and scan.repository.module(head) is not None
            if inside and not _exists(found, origin) and not _exists(found, parent):
                detail = f"{entry.path} imports {origin}, which does not exist"
                yield hazard("eval_script_broken", detail, [at(entry.path, line, origin)])
                return


def _exists(found: Findings, name: str) -> bool:
    scan = found.scan
    folder = name.replace(".", "/")
    known = scan.repository.find(name) is not None or scan.repository.module(name) is not None
    return (
        known
        or scan.tree.has(folder)
        or any(path.endswith(f"/{folder}") for path in scan.tree.folders)
    )


def eval_distribution_differs(found: Findings) -> Iterator[HazardFinding]:
    """Evaluation that switches off what training had on."""
    seen = [
        at(path, each.line, f"{each.target} = {each.value}")
        for path, each in turned_off(found.scan)
    ]
    if seen:
        names = ", ".join(dict.fromkeys(each.note for each in seen[:6]))
        yield hazard(
            "eval_distribution_differs", f"evaluation differs from training: {names}", seen
        )


def eval_no_metrics(found: Findings) -> Iterator[HazardFinding]:
    """Evaluation that writes no number about how well the policy did."""
    if found.evaluation.style == "script" and found.evaluation.emits_scalars is False:
        yield hazard(
            "eval_no_metrics", "evaluation prints or writes no score", found.evaluation.evidence
        )


def eval_not_held_out(found: Findings) -> Iterator[HazardFinding]:
    """Evaluation on the very environment and seed of training."""
    seen = [
        at(path, call.line, f"{call.name}({', '.join(map(str, call.args))})")
        for path, call in train_calls(found)
        if call.last in {"evaluate_policy", "EvalCallback", "evaluate"}
        and any(value in ("<env>", "<envs>", "<self.env>") for value in call.args[:2])
    ]
    if seen:
        yield hazard("eval_not_held_out", "evaluates on the training environment", seen)


def train_and_eval_share_entrypoint(found: Findings) -> Iterator[HazardFinding]:
    """One command for both, told apart by a flag."""
    flag = eval_flag(found.scan) if found.scan.train else None
    shared = {entry.path for entry in found.scan.train[:3]} & {
        e.path for e in found.scan.evaluate[:3]
    }
    if flag:
        place = at(flag.path, flag.line, flag.flag or flag.name)
        yield hazard(
            "train_and_eval_share_entrypoint", f"{flag.flag or flag.name} evaluates", [place]
        )
    elif shared:
        yield hazard("train_and_eval_share_entrypoint", f"{min(shared)} both trains and evaluates")


def reward_transformed_for_training(found: Findings) -> Iterator[HazardFinding]:
    """The logged return may not be the task's reward."""
    wrappers = found.sources.wrappers
    seen = list(wrappers.evidence)
    for path in found.scan.files(found.scan.train_reach)[:40]:
        seen += [
            at(path, call.line, "sign of the reward")
            for call in found.scan.repository.modules[path].calls
            if call.name.endswith(".sign") and "reward" in found.scan.tree.line(path, call.line)
        ]
    if seen:
        yield hazard(
            "reward_transformed_for_training", "rewards are scaled, clipped or normalised", seen
        )


def no_local_metric_file(found: Findings) -> Iterator[HazardFinding]:
    """Numbers that are nowhere on disk unless asked for."""
    local = any(sink.default and not sink.network and sink.kind != "stdout" for sink in found.sinks)
    if found.scan.train and not local:
        yield hazard("no_local_metric_file", "no metric file is written by default")


def random_seed_by_default(found: Findings) -> Iterator[HazardFinding]:
    """A seed that differs from run to run unless given."""
    seeds = found.seeds
    if not seeds.controllable or not found.scan.train:
        return
    place = seeds.evidence[0]
    text = found.scan.tree.line(place.path, place.line)
    if (seeds.default in _SEED_ANY and type(seeds.default) is not bool) or _RANDOM.search(text):
        yield hazard("random_seed_by_default", f"{seeds.flag} has no fixed default", seeds.evidence)


def no_seed_control(found: Findings) -> Iterator[HazardFinding]:
    """Nothing on the command line or in the settings sets a seed."""
    if found.scan.train and not found.seeds.controllable:
        yield hazard("no_seed_control", "no seed setting was found")


EVALUATION = (
    exit_zero_on_crash,
    eval_script_broken,
    eval_distribution_differs,
    eval_no_metrics,
    eval_not_held_out,
    train_and_eval_share_entrypoint,
    reward_transformed_for_training,
    no_local_metric_file,
    random_seed_by_default,
    no_seed_control,
)
