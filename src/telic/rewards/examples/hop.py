"""Example reward for Hopper: hop forward and leave the ground at every step."""

# ruff: noqa: ANN001, ANN201, D102, RUF012

import torch

from telic import RewardFunction, quantities


class HopReward(RewardFunction):
    """Reward forward speed and air time of a hopping robot."""

    weights = {"speed": 1.0, "air": 0.5, "upright": 0.5, "alive": 0.5, "control": 0.001}

    terms = {
        "speed": "forward velocity up to 3 m/s",
        "air": "1 while the foot is off the ground and the body is not falling",
        "upright": "squared uprightness of the torso",
        "alive": "constant reward for not falling",
        "control": "cost of the sum of squared actions",
    }
    latex = r"r = w_s \min(v_x, 3) + w_a [f = 0, v_z > -1] + w_u \cos^2\theta + w_l - w_c \|a\|^2"
    description = "Hop forward steadily with clear flight phases and without falling."

    def compute(self, obs, action, next_obs, info):
        upright = quantities.uprightness(info).clamp(min=0.0)
        in_air = quantities.feet_in_contact(info) == 0
        not_falling = quantities.vertical_velocity(info) > -1.0
        terms = {
            "speed": self.weights["speed"] * info["x_velocity"].clamp(-1.0, 3.0),
            "air": self.weights["air"] * (in_air & not_falling).float(),
            "upright": self.weights["upright"] * upright.square(),
            "alive": self.weights["alive"] * torch.ones_like(upright),
            "control": -self.weights["control"] * action.square().sum(-1),
        }
        return sum(terms.values()), terms
