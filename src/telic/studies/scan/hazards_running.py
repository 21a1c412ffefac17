"""Hazards of running at all: displays, simulators, devices, budgets, folders."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.hazard_rules import Findings, at, hazard, imports, train_calls
from telic.studies.scan.records import Evidence, HazardFinding
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import Setting

_VIDEO = re.compile(r"^(capture_video|record_video|save_video|video|render|record|log_video\w*)$")
_SAVE = re.compile(
    r"^(save_model|save_checkpoints?|checkpoint|save|upload_model|save_freq|save_interval"
    r"|checkpoint_frequency|checkpoint_interval|save_every\w*|num_checkpoints)$"
)
_STEPS = re.compile(
    r"^(total_timesteps|n_timesteps|num_timesteps|total_steps|max_steps|total_frames|"
    r"train_for_env_steps|num_env_steps|total_env_steps|total_environment_steps)$"
)
_ITERATIONS = re.compile(r"^(max_iterations|num_learning_iterations|num_iterations|max_epochs)$")
_LONG_STEPS, _LONG_ITERATIONS = 2e7, 5000
_PRECISION = re.compile(
    r"autocast|GradScaler|allow_tf32|set_float32_matmul_precision|bfloat16|mixed_precision|"
    r"jax_default_matmul_precision|jax_enable_x64"
)
_LATEST = re.compile(
    r"get_latest_run|latest_run|get_last_run|find_latest|latest_checkpoint|load_run|"
    r"get_latest_checkpoint|get_checkpoint_path|last_checkpoint"
)
_UNIQUE = re.compile(r"time|date|uuid|seed|stamp|now|run_id|exp_id|\{.*id\}", re.I)


def _settings(found: Findings, pattern: re.Pattern[str]) -> Iterator[Setting]:
    """Settings of the training command with such a name, nearest first."""
    scan = found.scan
    near = scan.files(scan.train_reach)
    order = {path: index for index, path in enumerate(near)}
    matching = [
        each
        for each in (*scan.settings.flags, *scan.settings.fields)
        if pattern.match(each.name.lstrip("-").rpartition(".")[2].replace("-", "_"))
        and each.path in order
    ]
    yield from sorted(matching, key=lambda each: (not each.flag, order[each.path]))
    if found.config.primary in ("hydra", "yaml"):
        roots = tuple(f"{root}/" for root in found.config.roots)
        for name, settings in scan.settings.by_name.items():
            if pattern.match(name):
                yield from (each for each in settings if each.path.startswith(roots))


def display_by_default(found: Findings) -> Iterator[HazardFinding]:
    """A window opens unless told otherwise."""
    for each in _settings(found, re.compile(r"^headless$")):
        if each.known and each.default is False:
            yield hazard(
                "display_by_default", "opens a window unless headless is set", [_place(each)]
            )
            return
    for path, call in train_calls(found):
        if call.keywords.get("render_mode") == "human":
            yield hazard(
                "display_by_default",
                "renders for people",
                [at(path, call.line, "render_mode=human")],
            )
            return


def renders_by_default(found: Findings) -> Iterator[HazardFinding]:
    """Videos are made unless told otherwise."""
    for each in _settings(found, _VIDEO):
        if each.known and each.default is True:
            yield hazard(
                "renders_by_default", f"{each.flag or each.name} is on by default", [_place(each)]
            )
            return


def proprietary_simulator(found: Findings) -> Iterator[HazardFinding]:
    """A simulator that cannot simply be installed."""
    seen = imports(found, "simulators_proprietary")
    if seen:
        names = sorted({each.note.removeprefix("imports ") for each in seen})
        yield hazard("proprietary_simulator", f"needs {', '.join(names)}", seen)


def gpu_required(found: Findings) -> Iterator[HazardFinding]:
    """No run without a graphics card."""
    seen = imports(found, "simulators_gpu")
    for each in _settings(found, re.compile(r"^(device|rl_device|sim_device)$")):
        if isinstance(each.default, str) and each.default.startswith(("cuda", "gpu")):
            text = found.scan.tree.text(each.path)
            if "is_available" not in text:
                seen.append(_place(each))
    if seen:
        yield hazard("gpu_required", "expects a GPU by default", seen)


def checkpoint_off_by_default(found: Findings) -> Iterator[HazardFinding]:
    """Nothing is saved unless asked for."""
    for each in _settings(found, _SAVE):
        if each.known and (each.default is False or each.default in (-1, 0)):
            yield hazard(
                "checkpoint_off_by_default", f"{each.flag or each.name} is off", [_place(each)]
            )
            return


def config_not_cli_overridable(found: Findings) -> Iterator[HazardFinding]:
    """Settings that only an edit of the source changes."""
    if found.scan.train and found.config.override_style in (None, "source_edit"):
        entry = found.scan.train[0]
        yield hazard(
            "config_not_cli_overridable", f"{entry.path} takes no settings", entry.evidence[:1]
        )


def budget_hardcoded(found: Findings) -> Iterator[HazardFinding]:
    """A training length written into the call."""
    names = {
        "total_timesteps",
        "num_timesteps",
        "max_iterations",
        "num_learning_iterations",
        "n_steps",
        "total_steps",
        "timesteps",
        "max_epoch",
    }
    entries = {entry.path for entry in found.scan.train[:1]}
    for path, call in found.scan.calls(found.scan.train_reach):
        if path in entries and call.last in {"learn", "train", "fit"}:
            fixed = [value for name, value in call.keywords.items() if name in names] or [
                value for value in call.args[:1] if isinstance(value, int | float)
            ]
            if any(
                isinstance(value, int | float) and not isinstance(value, bool) for value in fixed
            ):
                yield hazard(
                    "budget_hardcoded", f"{call.name}({fixed[0]})", [at(path, call.line, call.name)]
                )
                return


def long_default_budget(found: Findings) -> Iterator[HazardFinding]:
    """A default that runs for hours or days."""
    for pattern, most in ((_STEPS, _LONG_STEPS), (_ITERATIONS, _LONG_ITERATIONS)):
        for each in _settings(found, pattern):
            value = each.default
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= most:
                yield hazard("long_default_budget", f"{each.name} = {value:g}", [_place(each)])
                return


def nested_search(found: Findings) -> Iterator[HazardFinding]:
    """A search over settings inside the training command."""
    paths = found.scan.files(found.scan.any_train_reach)
    seen = imports(found, "search", paths)
    if seen:
        yield hazard("nested_search", "may start a search of its own", seen)


def multiple_trainers(found: Findings) -> Iterator[HazardFinding]:
    """More than one command trains."""
    places: dict[tuple[str, int], str] = {}
    for entry in found.scan.train:
        training = found.scan.repository.nearest_training(Spot(entry.path, entry.function))
        if training:
            places.setdefault((training.path, training.call.line), entry.path)
    if len(places) > 1:
        seen = [at(path, 1, "trains") for path in places.values()]
        yield hazard("multiple_trainers", f"{len(places)} commands train; choose one", seen)


def no_entrypoint(found: Findings) -> Iterator[HazardFinding]:
    """A library: nothing here trains by itself."""
    if not found.scan.train:
        yield hazard("no_entrypoint", "no training command in this repository")


def precision_changes_result(found: Findings) -> Iterator[HazardFinding]:
    """Reduced or changed precision."""
    seen: list[Evidence] = []
    for path in found.scan.files(found.scan.any_train_reach):
        match = _PRECISION.search(found.scan.tree.text(path))
        if match:
            line = found.scan.tree.text(path)[: match.start()].count("\n") + 1
            seen.append(at(path, line, match[0]))
    if seen:
        yield hazard("precision_changes_result", "precision depends on settings or hardware", seen)


def latest_run_default(found: Findings) -> Iterator[HazardFinding]:
    """The newest run is taken when none is named."""
    paths = found.scan.files({**found.scan.any_train_reach, **found.scan.eval_reach})
    for path in paths:
        for call in found.scan.repository.modules[path].calls:
            if _LATEST.search(call.last):
                note = f"{call.name}(…)"
                yield hazard(
                    "latest_run_default",
                    "takes the newest run when none is named",
                    [at(path, call.line, note)],
                )
                return
    for each in (*found.scan.settings.flags, *found.scan.settings.fields):
        if each.name.endswith("load_run") and each.known and each.default in (-1, "-1", ".*"):
            yield hazard(
                "latest_run_default", "load_run defaults to the newest run", [_place(each)]
            )
            return


def output_dir_collision(found: Findings) -> Iterator[HazardFinding]:
    """Two runs with equal settings write into one folder."""
    template = found.outputs.run_dir_template
    if found.scan.train and template and not _UNIQUE.search(template) and "{" not in template:
        yield hazard(
            "output_dir_collision", f"every run writes to {template}", found.outputs.evidence
        )


def _place(setting: Setting) -> Evidence:
    return at(setting.path, setting.line, f"{setting.name} = {setting.default}")


RUNNING = (
    display_by_default,
    renders_by_default,
    proprietary_simulator,
    gpu_required,
    checkpoint_off_by_default,
    config_not_cli_overridable,
    budget_hardcoded,
    long_default_budget,
    nested_search,
    multiple_trainers,
    no_entrypoint,
    precision_changes_result,
    latest_run_default,
    output_dir_collision,
)
