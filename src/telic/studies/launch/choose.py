"""The launcher of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telic.studies.documents.adapter import LauncherKind
from telic.studies.launch.custom import CustomLauncher
from telic.studies.launch.kubernetes import KubernetesLauncher
from telic.studies.launch.local import LocalLauncher, SpreadLauncher, TmuxLauncher
from telic.studies.launch.order import Launcher
from telic.studies.launch.ray_jobs import RayLauncher
from telic.studies.launch.slurm import SlurmLauncher

ON_THIS_MACHINE: frozenset[LauncherKind] = frozenset({"local", "tmux", "torchrun", "accelerate"})
"""kinds whose runs can be found in the process table"""


def launcher_of(kind: LauncherKind, options: Mapping[str, Any]) -> Launcher:
    """Return the launcher of a kind with the adapter's options."""
    match kind:
        case "local":
            return LocalLauncher()
        case "tmux":
            return TmuxLauncher()
        case "torchrun" | "accelerate":
            return SpreadLauncher(kind)
        case "slurm":
            return SlurmLauncher()
        case "ray":
            return RayLauncher(options.get("address"))
        case "kubernetes":
            return KubernetesLauncher()
        case "custom":
            return CustomLauncher(options)
