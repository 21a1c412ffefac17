"""Walk straight forward on four legs. For Ant."""

# ruff: noqa: ANN001, ANN201, D102, RUF012

from telic import RewardFunction, quantities


class AntForward(RewardFunction):
    """Forward speed along x, kept on a straight line and on the feet."""

    weights = {"speed": 1.0, "drift": 0.3, "upright": 0.5, "turn": 0.05, "control": 0.1}

    terms = {
        "speed": "forward velocity in m/s",
        "drift": "sideways velocity, squared, as a cost",
        "upright": "how upright the torso is",
        "turn": "rate of turning about the vertical, squared, as a cost",
        "control": "sum of squared actions, as a cost",
    }
    latex = r"r = w_s v_x - w_d v_y^2 + w_u \cos\theta - w_t \omega_z^2 - w_c \|a\|^2"
    description = "Walk straight forward without turning, drifting or tipping over."

    def compute(self, obs, action, next_obs, info):
        terms = {
            "speed": self.weights["speed"] * info["x_velocity"],
            "drift": -self.weights["drift"] * info["y_velocity"].square().clamp(max=4.0),
            "upright": self.weights["upright"] * quantities.uprightness(info),
            "turn": -self.weights["turn"] * quantities.heading_rate(info).square().clamp(max=20.0),
            "control": -self.weights["control"] * action.square().sum(-1),
        }
        return sum(terms.values()), terms
