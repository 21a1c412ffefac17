"""Obey a joystick: the velocity reward of the field. For robots that take commands.

    telic train unitree-go2 --reward obey_commands --env-arg 'commands={}'

Tracking of the commanded speeds and of the turning rate, each by a bell curve with a slope that
leads there from afar; costs for going up and down, rolling and pitching, jerky actions and slipping
feet; feet are paid for landing after a swing, and for standing when told to. The critic sees how
fast the trunk really moves, which the robot cannot measure.
"""

# ruff: noqa: ANN001, ANN201, D102, RUF012
# pyright: basic

import torch

from telic import RewardFunction, quantities

_MOST_FEET, _MOST_ACTIONS = 8, 48
_WIDTH = 0.25  # squared error, (m/s)^2 and (rad/s)^2, at which a curve is at 1/e
_SLOPE = 0.3  # per m/s and rad/s, where the curve is flat
_SWING_S = 0.1  # shortest swing that pays; one of twice as long pays all
_TOLD = 0.1  # m/s or rad/s from which it is told to go


class ObeyCommands(RewardFunction):
    """Go ahead, back and aside and turn as commanded, in steps; stand when told to."""

    weights = {
        "velocity": 2.0,
        "turn": 1.0,
        "bob": 0.5,
        "rock": 0.02,
        "upright": 0.5,
        "jerk": 0.1,
        "steps": 0.5,
        "stand": 0.5,
        "slip": 0.1,
        "alive": 0.5,
    }
    memory = {
        "aloft": (0.0,) * _MOST_FEET,
        "last": (0.0,) * _MOST_ACTIONS,
        "moving": (0.0, 0.0, 0.0),
    }
    terms = {
        "velocity": "speed ahead and aside as commanded",
        "turn": "turning rate as commanded",
        "bob": "vertical velocity, squared, as a cost",
        "rock": "rates of rolling and pitching, squared, as a cost",
        "upright": "how upright the trunk is",
        "jerk": "change of the action from step to step, squared, as a cost",
        "steps": "feet that land after a swing, while it is told to go",
        "stand": "feet in the air while it is told to stand, as a cost",
        "slip": "speed of the feet on the ground, as a cost",
        "alive": "the episode goes on",
    }
    latex = (
        r"r = w_v (e^{-\|v - v^*\|^2 / 0.25} - 0.3 \|v - v^*\|)"
        r" + w_t (e^{-(\omega - \omega^*)^2 / 0.25} - 0.3 |\omega - \omega^*|)"
        r" - w_b v_z^2 - w_r (\omega_x^2 + \omega_y^2) + w_u \cos\theta - w_j \overline{\Delta a^2}"
        r" + w_s \sum_i [\text{lands}] (t_i - 0.1) - w_d \overline{[\text{aloft}]}"
        r" - w_l \overline{c_i v_i} + w_a"
    )
    description = "Follow commanded speeds ahead and aside and a commanded turning rate, in steps."

    def compute(self, obs, action, next_obs, info):
        off = quantities.command_error(info)
        off_turn = quantities.turn_command_error(info)
        rocking = quantities.roll_rate(info).square() + quantities.pitch_rate(info).square()
        told = torch.hypot(info["command_forward"], info["command_sideways"])
        is_told = ((told > _TOLD) | (info["command_turn"].abs() > _TOLD)).float()

        strength = quantities.action_strength(info).clamp(-1.0, 1.0)
        width = strength.shape[-1]
        last = self.memory["last"]
        jerk = (strength - last[:, :width]).square().mean(-1)
        self.memory["last"] = torch.cat((strength, last[:, width:]), -1)

        touching = quantities.foot_contact(info)
        feet = touching.shape[-1]
        was_aloft = self.memory["aloft"][:, :feet]
        aloft = (was_aloft + info["dt"].unsqueeze(-1)) * (1.0 - touching)
        self.memory["aloft"] = torch.cat((aloft, self.memory["aloft"][:, feet:]), -1)
        landed = touching * (was_aloft > 0.0)
        swung = (landed * ((was_aloft - _SWING_S) / _SWING_S).clamp(0.0, 1.0)).sum(-1)
        rates = (
            quantities.heading_velocity(info),
            quantities.sideways_velocity(info),
            quantities.vertical_velocity(info),
        )
        self.memory["moving"] = torch.stack(rates, -1)

        terms = {
            "velocity": torch.exp(-off.square() / _WIDTH) - _SLOPE * off.clamp(max=3.0),
            "turn": torch.exp(-off_turn.square() / _WIDTH) - _SLOPE * off_turn.clamp(max=3.0),
            "bob": -quantities.vertical_velocity(info).square().clamp(max=4.0),
            "rock": -rocking.clamp(max=50.0),
            "upright": quantities.uprightness(info),
            "jerk": -jerk,
            "steps": swung * is_told,
            "stand": -(aloft > 0.0).float().mean(-1) * (1.0 - is_told),
            "slip": -quantities.foot_slip(info).mean(-1).clamp(max=2.0),
            "alive": torch.ones_like(off),
        }
        terms = {name: self.weights[name] * value for name, value in terms.items()}
        return sum(terms.values()), terms
