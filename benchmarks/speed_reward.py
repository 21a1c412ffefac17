"""Reward of the population benchmark: run forward with little effort."""

from telic import RewardFunction


class Speed(RewardFunction):
    """Reward forward velocity minus control cost."""

    weights = {"speed": 1.0, "control": 0.1}  # noqa: RUF012 - the contract's way to name weights

    def compute(self, obs, action, next_obs, info):
        """Return the total and its terms."""
        terms = {
            "speed": self.weights["speed"] * info["x_velocity"],
            "control": -self.weights["control"] * (action**2).sum(-1),
        }
        return sum(terms.values()), terms
