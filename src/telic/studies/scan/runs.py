"""What a run is given and leaves behind: seeds, folders, checkpoints, metric keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from telic.studies import git_read
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import OutputFinding, SeedFinding, Sink, SourceLine, quote
from telic.studies.scan.settings import Setting, bare
from telic.studies.scan.syntax import is_symbol, is_table
from telic.studies.scan.vocabulary import VOCABULARY

_SEED = re.compile(r"^(seed|random_seed|train_seed|rng_seed|env_seed|seeds|torch_seed)$")
_SEEDING = re.compile(
    r"^(seed|manual_seed|set_seed|set_random_seed|seed_everything|PRNGKey|default_rng|set_all_seeds|"
    r"fix_seed|seed_all|fix_random_seed\w*)$"
)
_DETERMINISTIC = re.compile(
    r"use_deterministic_algorithms|cudnn\.deterministic|torch_deterministic|cudnn_deterministic"
)
_FOLDERS = VOCABULARY.words("run_folders")
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
