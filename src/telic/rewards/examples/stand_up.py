"""Get up from the ground and stay up. For HumanoidStandup and Humanoid."""

# ruff: noqa: ANN001, ANN201, D102, RUF012

import torch

from telic import RewardFunction, quantities


class StandUp(RewardFunction):
    """Reward torso height first, then an upright and still torso."""

    weights = {"height": 2.0, "rise": 0.5, "upright": 1.0, "still": 0.5, "control": 0.05}

    terms = {
        "height": "height of the torso as a share of standing, up to 1",
        "rise": "upward velocity while below standing height",
        "upright": "how upright the torso is, once it is half way up",
        "still": "near 1 when standing without moving",
        "control": "sum of squared actions, as a cost",
    }
    latex = (
        r"r = w_h h + w_r (1 - h) v_z + w_u\, h^2 \cos\theta + w_s\, h^4 e^{-v^2} - w_c \|a\|^2,"
        r"\quad h = \min(z / z_\text{standing}, 1)"
    )
    description = "Rise from lying to standing, then stand upright and still."

    standing = 1.4  # metres: height of a standing humanoid's torso

    def compute(self, obs, action, next_obs, info):
        height = (quantities.height(info) / self.standing).clamp(0.0, 1.0)
        rising = quantities.vertical_velocity(info).clamp(-1.0, 2.0)
        calm = torch.exp(-quantities.speed(info).square())
        terms = {
            "height": self.weights["height"] * height,
            "rise": self.weights["rise"] * (1.0 - height) * rising,
            "upright": self.weights["upright"] * height.square() * quantities.uprightness(info),
            "still": self.weights["still"] * height.pow(4) * calm,
            "control": -self.weights["control"] * action.square().sum(-1),
        }
        return sum(terms.values()), terms
