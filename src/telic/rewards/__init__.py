"""Rewards: the contract, loading, probing and comparing."""

from telic.rewards.contract import RewardFunction, RewardSpec, RewardStep, TermSpec
from telic.rewards.difference import RewardDifference, compare_rewards
from telic.rewards.findings import Finding
from telic.rewards.load import library_names, load_reward
from telic.rewards.probe import probe
from telic.rewards.recording import Recording, collect
from telic.rewards.report import ProbeReport
from telic.rewards.reward import Reward

__all__ = [
    "Finding",
    "ProbeReport",
    "Recording",
    "Reward",
    "RewardDifference",
    "RewardFunction",
    "RewardSpec",
    "RewardStep",
    "TermSpec",
    "collect",
    "compare_rewards",
    "library_names",
    "load_reward",
    "probe",
]
