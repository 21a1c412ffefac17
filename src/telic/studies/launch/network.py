"""The environment of a run: no network unless a person approved it, no secrets without a use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from telic.studies.launch.redaction import is_secret_name

# Nothing listens on the discard port: whoever honours proxies fails at once instead of waiting.
_CLOSED = "http://127.0.0.1:9"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")

OFFLINE: dict[str, str] = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "MLFLOW_TRACKING_URI": "file:mlruns",
    "COMET_START_ONLINE": "0",
    "COMET_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
    "PIP_NO_INDEX": "1",
    "UV_OFFLINE": "1",
    "CONDA_OFFLINE": "true",
    **dict.fromkeys(_PROXIES, _CLOSED),
    **{name.upper(): _CLOSED for name in _PROXIES},
    "no_proxy": "localhost,127.0.0.1,::1",
    "NO_PROXY": "localhost,127.0.0.1,::1",
}
# A repository may keep its tracker's local files (`offline_env` of the adapter); these values of
# these variables, and no others, keep them local.
_LOCAL_CHOICES: dict[str, frozenset[str]] = {
    "WANDB_MODE": frozenset({"offline", "disabled", "dryrun"}),
    "NEPTUNE_MODE": frozenset({"offline", "debug"}),
    "COMET_MODE": frozenset({"offline", "disabled"}),
}


class RunEnvironment(NamedTuple):
    """What a run is started with."""

    variables: dict[str, str]
    """everything, secrets included: for the process, never for a file"""
    changed: dict[str, str]
    """what differs from the caller's environment"""
    withheld: tuple[str, ...]
    """variables the caller has and the run does not get"""
    is_offline: bool
    problems: tuple[str, ...] = ()


def run_environment(
    base: Mapping[str, str],
    *,
    declared: Mapping[str, str],
    offline_choices: Mapping[str, str],
    own: Mapping[str, str],
    network_approved: bool,
) -> RunEnvironment:
    """Return the environment to start a run with.

    Args:
        base: the caller's environment.
        declared: what the adapter's command asks for.
        offline_choices: what the adapter's log sources ask for when there is no network.
        own: what this tool sets, such as the run folder.
        network_approved: whether a person approved the use of the network.
    """
    declared = {
        # Entering a venv or conda environment puts its folder before the others.
        name: value.replace("$PATH", base.get("PATH", os.defpath)) if name == "PATH" else value
        for name, value in declared.items()
    }
    if network_approved:
        changed = {**declared, **own}
        return RunEnvironment({**base, **changed}, changed, (), False)
    problems = tuple(
        f"{name}={value} would open the network"
        for name, value in {**declared, **offline_choices}.items()
        if not _stays_local(name, value)
    )
    kept_local = {
        name: value
        for name, value in {**declared, **offline_choices}.items()
        if name in _LOCAL_CHOICES and _stays_local(name, value)
    }
    # Without a network a key is of no use, and what a run does not have it cannot write to a log.
    withheld = tuple(sorted(n for n in base if is_secret_name(n) and n not in declared))
    changed = {**offline_choices, **declared, **own, **OFFLINE, **kept_local}
    inherited = {name: value for name, value in base.items() if name not in withheld}
    return RunEnvironment({**inherited, **changed}, changed, withheld, True, problems)


def _stays_local(name: str, value: str) -> bool:
    if name in _LOCAL_CHOICES:
        return value in _LOCAL_CHOICES[name]
    return name not in OFFLINE or value == OFFLINE[name]
