"""Reward for tracking commanded velocities, for robots whose environment has commands.

    telic train unitree-go2 --reward examples/obey_commands.py --env-arg 'commands={}'

Tracking of the commanded velocity and yaw rate is rewarded by Gaussian terms with a linear slope.
Vertical motion, roll, pitch, jerky actions and foot slip are penalized. The feet step with a phase
variable that the policy observes: four feet in a trot, two in a walk. The robot stands while the
command is to stand.
"""

import math

import torch

from telic import RewardFunction, quantities

_MOST_ACTIONS = 32
_WIDTH = 0.25  # squared error, (m/s)^2 and (rad/s)^2, at which a curve is at 1/e
_SLOPE = 0.3  # per m/s and rad/s, where the curve is flat
_LEAST = 0.05  # m/s or rad/s from which it is commanded to go
_LIFT_M = 0.03  # how far a foot swings above the others


class ObeyCommands(RewardFunction):
    """Track commanded forward, lateral and turning velocities by stepping, and stand on command."""

    weights = {
        "velocity": 3.0,
        "turn": 1.5,
        "rhythm": 1.5,
        "bob": 1.0,
        "rock": 0.02,
        "upright": 0.2,
        "jerk": 0.1,
        "stand": 0.5,
        "slip": 0.1,
        "alive": 0.3,
    }
    memory = {"last": (0.0,) * _MOST_ACTIONS}
    phase_hz = 2.2
    terms = {
        "velocity": "tracking of the commanded horizontal velocity",
        "turn": "tracking of the commanded yaw rate",
        "rhythm": "stance and swing in time with the phase variable, while commanded to move",
        "bob": "cost of the squared vertical velocity",
        "rock": "cost of the squared roll and pitch rates",
        "upright": "uprightness of the trunk",
        "jerk": "cost of the squared change of the action",
        "stand": "cost of feet in the air while commanded to stand",
        "slip": "cost of the speed of feet in contact",
        "alive": "constant reward for not terminating",
    }
    latex = (
        r"r = w_v (e^{-\|v - v^*\|^2 / 0.25} - 0.3 \|v - v^*\|)"
        r" + w_t (e^{-(\omega - \omega^*)^2 / 0.25} - 0.3 |\omega - \omega^*|)"
        r" + w_y (\overline{w_i (c_i - \tfrac12)} - \overline{w_i z_i})"
        r" - w_b v_z^2 - w_r (\omega_x^2 + \omega_y^2) + w_u \cos\theta - w_j \overline{\Delta a^2}"
        r" - w_d (1 - \overline{c_i}) - w_l \overline{c_i v_i} + w_a"
    )
    description = "Track a commanded horizontal velocity and yaw rate by stepping."

    def compute(self, obs, action, next_obs, info):
        off = quantities.command_error(info)
        off_turn = quantities.turn_command_error(info)
        rocking = quantities.roll_rate(info).square() + quantities.pitch_rate(info).square()
        size = torch.hypot(info["command_forward"], info["command_sideways"])
        is_commanded = ((size > _LEAST) | (info["command_turn"].abs() > _LEAST)).float()

        # A foot is wanted on the ground for half of a turn of the phase, its pair with it.
        assert self.phase_hz is not None  # declared above
        y = torch.sin(2.0 * math.pi * self.phase_hz * info["time"])
        last, width = self.memory["last"], action.shape[-1]
        jerk = (action - last[:, :width]).square().mean(-1) * (1.0 - info["episode_start"].float())
        self.memory["last"] = torch.cat((action, last[:, width:]), -1)
        touching = quantities.foot_contact(info)
        feet = touching.shape[-1]
        sides = (1.0, -1.0, -1.0, 1.0) if feet == 4 else [1.0 - 2.0 * (k % 2) for k in range(feet)]
        wanted = torch.tanh(4.0 * torch.stack([side * y for side in sides], -1))
        height = quantities.foot_height(info)
        lifted = ((height - height.mean(-1, keepdim=True)) / _LIFT_M).clamp(-1.0, 1.0)
        in_time = (wanted * (touching - 0.5 - lifted)).mean(-1)

        terms = {
            "velocity": torch.exp(-off.square() / _WIDTH) - _SLOPE * off.clamp(max=3.0),
            "turn": torch.exp(-off_turn.square() / _WIDTH) - _SLOPE * off_turn.clamp(max=3.0),
            "rhythm": in_time * is_commanded,
            "bob": -quantities.vertical_velocity(info).square().clamp(max=4.0),
            "rock": -rocking.clamp(max=50.0),
            "upright": quantities.uprightness(info),
            "jerk": -jerk,
            "stand": (touching.mean(-1) - 1.0) * (1.0 - is_commanded),
            "slip": -quantities.foot_slip(info).mean(-1).clamp(max=2.0),
            "alive": torch.ones_like(off),
        }
        terms = {name: self.weights[name] * value for name, value in terms.items()}
        return sum(terms.values()), terms
