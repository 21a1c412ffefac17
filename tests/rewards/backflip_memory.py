"""One backflip, then stand. For HalfCheetah; shows a reward with memory."""

# ruff: noqa: RUF012

import torch

from telic import RewardFunction, quantities


class BackflipMemory(RewardFunction):
    """Pay for each new part of a backward turn once, for landing once, then for standing still.

    Paying progress over the best turn so far cannot be farmed by rocking to and fro. The memory is
    shown to the critic, which could not tell a first flip from a second one without it.
    """

    weights = {"turn": 10.0, "land": 20.0, "stand": 0.5, "lift": 0.5, "control": 0.02}

    memory = {
        "turned": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # what pitch_turns remembers
        "best": 0.0,  # turns backward so far, at most one
        "landed": 0.0,  # 1 after the landing
    }

    terms = {
        "turn": "new progress of the backward turn, in turns",
        "land": "once: feet on the ground and upright after a full turn",
        "stand": "upright and slow, after the landing",
        "lift": "upward velocity while the turn is not complete",
        "control": "sum of squared actions, as a cost",
    }
    latex = (
        r"r = w_t (b_t - b_{t-1}) + w_l [\text{landed}_t - \text{landed}_{t-1}]"
        r" + w_s\,\text{landed}_t \cos\theta\, e^{-v^2} + w_z (1 - b_t) v_z - w_c \|a\|^2"
    )
    description = "Turn backward once in the air, land on the feet, and stay there."

    def compute(self, obs, action, next_obs, info):
        self.memory["turned"], turns = quantities.pitch_turns.update(self.memory["turned"], info)
        best = torch.maximum(self.memory["best"], (-turns).clamp(0.0, 1.0))
        progress = best - self.memory["best"]
        self.memory["best"] = best

        upright = quantities.uprightness(info)
        on_feet = quantities.feet_in_contact(info) > 0
        down = (best > 0.9) & (upright > 0.8) & on_feet
        landed = torch.maximum(self.memory["landed"], down.float())
        landing = landed - self.memory["landed"]
        self.memory["landed"] = landed

        calm = torch.exp(-quantities.speed(info).square())
        rising = quantities.vertical_velocity(info).clamp(-1.0, 2.0)
        terms = {
            "turn": self.weights["turn"] * progress,
            "land": self.weights["land"] * landing,
            "stand": self.weights["stand"] * landed * upright * calm,
            "lift": self.weights["lift"] * (1.0 - best) * rising,
            "control": -self.weights["control"] * action.square().sum(-1),
        }
        return sum(terms.values()), terms
