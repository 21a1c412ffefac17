"""What a run is given and leaves behind: seeds, folders, checkpoints, metric keys."""

from __future__ import annotations

import re
from typing import Any

from telic.studies.scan.context import Scan
from telic.studies.scan.records import Evidence, OutputFinding, SeedFinding

_SEED = re.compile(r"^(seed|random_seed|train_seed|rng_seed|env_seed|seeds|torch_seed)$")
_SEEDING = re.compile(
    r"^(seed|manual_seed|set_seed|set_random_seed|seed_everything|PRNGKey|default_rng|set_all_seeds|"
    r"fix_seed|seed_all|fix_random_seed\w*)$"
)
_DETERMINISTIC = re.compile(
    r"use_deterministic_algorithms|cudnn\.deterministic|torch_deterministic|cudnn_deterministic"
)
_FOLDERS = (
    "log_dir",
    "logdir",
    "run_dir",
    "output_dir",
    "save_dir",
    "log_path",
    "experiment_dir",
    "train_dir",
    "base_dir",
    "log_folder",
    "results_dir",
    "checkpoint_dir",
    "outdir",
    "log_root_path",
    "run_name",
    "logger_dir",
    "experiment_path",
    "workdir",
    "save_path",
)
_CHECKPOINT = re.compile(
    r"(\.(pt|pth|ckpt|pkl|zip|safetensors|onnx|npz|cleanrl_model|params|msgpack|orbax|tar))$|^model_\{"
)
_SAVES = re.compile(r"^(save\w*|dump|export\w*)$")
_CANONICAL: dict[str, re.Pattern[str]] = {
    "return": re.compile(
        r"(^|[/_ ])(episodic_return|ep_rew_mean|mean_reward|episode_return|"
        r"episode_reward|avg_reward|average_return|reward_mean|ep_ret|"
        r"episode_reward_mean|mean_episode_return)$",
        re.I,
    ),
    "success": re.compile(r"success(_rate)?$", re.I),
    "episode_length": re.compile(
        r"(episodic_length|ep_len_mean|episode_length|mean_episode_length|"
        r"ep_len|episode_len\w*)$",
        re.I,
    ),
    "entropy": re.compile(r"(^|[/_])entropy(_loss)?$", re.I),
    "kl": re.compile(r"(^|[/_])(approx_kl|kl|mean_kl|kl_mean|kl_divergence)$", re.I),
    "value_loss": re.compile(
        r"(^|[/_])(value_loss|critic_loss|v_loss|value_function|vf_loss|"
        r"qf_loss)$",
        re.I,
    ),
    "explained_variance": re.compile(r"explained_variance$", re.I),
    "clip_fraction": re.compile(r"clip_?frac(tion)?$", re.I),
    "sps": re.compile(r"(^|[/_])(SPS|fps|total_fps|steps_per_second|env_steps_per_sec\w*)$", re.I),
}
_WRITES = {
    "add_scalar",
    "log",
    "record",
    "logkv",
    "scalar",
    "write_scalar",
    "log_scalar",
    "add_metric",
    "log_metrics",
    "track_data",
    "log_tabular",
    "store",
}


def find_seeds(scan: Scan) -> SeedFinding:
    """Return the seed flag, its default, and whether anything is seeded with it."""
    near = scan.files(scan.train_reach)
    order = {path: index for index, path in enumerate(near)}
    known = [
        each
        for each in (*scan.settings.flags, *scan.settings.fields)
        if _SEED.match(each.name.lstrip("-").rpartition(".")[2].replace("-", "_"))
        and scan.tree.weight(each.path) >= 0.5
    ]
    known += [each for each in scan.settings.named("seed") if each.path.endswith((".yaml", ".yml"))]
    flags = [each for each in known if each.flag or each.path.endswith((".yaml", ".yml"))]
    best = min(
        flags,
        key=lambda each: (
            each.path not in order,
            not each.flag,
            order.get(each.path, 0),
            each.path,
        ),
        default=None,
    )
    calls = scan.calls(scan.any_train_reach) if scan.train else scan.source_calls()
    seeding = next(((path, call) for path, call in calls if _SEEDING.match(call.last)), None)
    evidence: list[Evidence] = []
    if best:
        evidence.append(Evidence(path=best.path, line=best.line, note=f"{best.flag or best.name}"))
    if seeding:
        path, call = seeding
        evidence.append(Evidence(path=path, line=call.line, note=f"{call.name}(…)"))
    value: Any = best.default if best and best.known else None
    return SeedFinding(
        flag=(best.flag or best.name) if best else None,
        default=value if isinstance(value, int | float | str | bool) else None,
        controllable=best is not None,
        claims_determinism=_claims_determinism(scan, near),
        evidence=tuple(evidence),
    )


def _claims_determinism(scan: Scan, near: list[str]) -> bool:
    return any(_DETERMINISTIC.search(scan.tree.text(path)) for path in near or scan.source_files)


def find_outputs(scan: Scan) -> OutputFinding:
    """Return where a run writes, and what its checkpoints are called."""
    near = scan.files(scan.any_train_reach) or scan.source_files
    folder, evidence = None, list[Evidence]()
    for path, each in scan.repository.assignments(near):
        name = each.target.rpartition(".")[2].lstrip("_")
        if name in _FOLDERS and _is_template(each.value):
            folder = each.value
            evidence.append(Evidence(path=path, line=each.line, note=f'{name} = "{folder}"'))
            break
    checkpoint = None
    for path in near:
        for call in scan.repository.modules[path].calls:
            found = (
                _checkpoint(call.args) if _SAVES.match(call.last) or "join" in call.last else None
            )
            if found:
                checkpoint = re.sub(r"\{[^}]*\}", "*", found)
                evidence.append(Evidence(path=path, line=call.line, note=f"{call.name}(…)"))
                break
        if checkpoint:
            break
    return OutputFinding(
        run_dir_template=folder, checkpoint_glob=_glob(checkpoint), evidence=tuple(evidence)
    )


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and not value.startswith("<") and ("/" in value or "{" in value)


def _checkpoint(values: tuple[Any, ...]) -> str | None:
    for value in values:
        if isinstance(value, str) and _CHECKPOINT.search(value):
            return value
    return None


def _glob(name: str | None) -> str | None:
    return None if name is None else f"**/{name.rpartition('/')[2]}"


def find_metrics(scan: Scan) -> dict[str, str]:
    """Return the logged key of each canonical metric, from what the code writes."""
    near = scan.files(scan.any_train_reach)
    found: dict[str, str] = {}
    for path in dict.fromkeys([*near, *scan.source_files]):
        facts = scan.repository.modules[path]
        keys = [call.args[0] for call in facts.calls if call.last in _WRITES and call.args]
        keys += [
            key
            for call in facts.calls
            if call.last in _WRITES and call.args and isinstance(call.args[0], dict)
            for key in call.args[0]
        ]
        keys += [each.target.split(".", 1)[-1] for each in facts.assignments if "/" in each.target]
        for key in keys:
            if isinstance(key, str) and not key.startswith("<"):
                for canonical, pattern in _CANONICAL.items():
                    if pattern.search(key):
                        found.setdefault(canonical, key)
    return dict(sorted(found.items()))
