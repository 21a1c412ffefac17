"""The ten MuJoCo tasks of Gymnasium, version 5."""

from telic.envs.tasks.registry import TASKS

__all__ = ["TASKS"]
