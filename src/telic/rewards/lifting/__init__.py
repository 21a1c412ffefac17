"""Run a reward written for one environment on all environments at once."""

from telic.rewards.lifting.runner import LiftedRunner

__all__ = ["LiftedRunner"]
