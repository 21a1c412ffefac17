"""Run a reward written for one environment on all environments at once."""

from telic.rewards.vectorise.runner import VectorisedRunner

__all__ = ["VectorisedRunner"]
