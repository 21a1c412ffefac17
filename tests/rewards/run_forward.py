"""Example reward for HalfCheetah, Walker2d and Hopper: run forward, fast and upright."""

# ruff: noqa: RUF012

from telic import RewardFunction, quantities


class RunForward(RewardFunction):
    """Reward forward speed and an upright torso, minus a control cost."""

    weights = {"speed": 1.0, "upright": 0.3, "control": 0.1}

    terms = {
        "speed": "forward velocity in m/s",
        "upright": "1 if upright, -1 if upside down",
        "control": "cost of the sum of squared actions",
    }
    latex = r"r = w_s v_x + w_u \cos\theta - w_c \|a\|^2"
    description = "Run forward as fast as possible, upright and with little effort."

    def compute(self, obs, action, next_obs, info):
        terms = {
            "speed": self.weights["speed"] * info["x_velocity"],
            "upright": self.weights["upright"] * quantities.uprightness(info),
            "control": -self.weights["control"] * action.square().sum(-1),
        }
        return sum(terms.values()), terms
