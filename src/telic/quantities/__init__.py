"""Measured quantities: one library for rewards, judges, dashboards and documentation.

    from telic import quantities

    quantities.forward_velocity(info)                                   # (N,), m/s
    self.m, turns = quantities.pitch_turns.update(self.m, info)         # since the episode began
    quantities.pitch_turns.over(quantities.Recording(fields, env.spec))  # (T,)

`describe_quantities(env.spec)` lists those an environment has.
"""

from telic.quantities.bodies import (
    body_height,
    body_position,
    body_velocity,
    centre_of_mass,
    centre_of_mass_height,
    centre_of_mass_velocity,
    contact_force,
    control_effort,
    distance_to_point,
    distance_to_target,
    feet_in_contact,
    foot_contact,
    joint_limit_closeness,
    joint_position,
    joint_speed,
    joint_velocity,
    power,
)
from telic.quantities.episode import (
    action_change,
    action_smoothness,
    air_time,
    displacement,
    distance_travelled,
    duty_factor,
    energy,
    foot_duty_factor,
    heading_rotation,
    heading_turns,
    joint_range_use,
    pitch_rotation,
    pitch_turns,
    roll_rotation,
    roll_turns,
    stride_alternation,
    yaw_rotation,
    yaw_turns,
)
from telic.quantities.motion import (
    angular_speed,
    forward_velocity,
    heading,
    heading_rate,
    heading_velocity,
    height,
    height_above_start,
    horizontal_speed,
    lateral_velocity,
    pitch,
    pitch_rate,
    roll,
    roll_rate,
    speed,
    uprightness,
    vertical_velocity,
    x_position,
    y_position,
    yaw,
    yaw_rate,
)
from telic.quantities.poles import pole_angle, pole_angles, pole_rates, tip_height
from telic.quantities.quantity import QUANTITIES as QUANTITIES
from telic.quantities.quantity import Accumulated as Accumulated
from telic.quantities.quantity import Quantity as Quantity
from telic.quantities.quantity import Recording as Recording
from telic.quantities.reference import QuantityDescription as QuantityDescription
from telic.quantities.reference import describe_quantities as describe_quantities

# Exactly the quantities: this is what the code of a reward is handed. What builds environments or
# could be patched is public under its own name, and stays out of reach of such code.
__all__ = [
    "action_change",
    "action_smoothness",
    "air_time",
    "angular_speed",
    "body_height",
    "body_position",
    "body_velocity",
    "centre_of_mass",
    "centre_of_mass_height",
    "centre_of_mass_velocity",
    "contact_force",
    "control_effort",
    "displacement",
    "distance_to_point",
    "distance_to_target",
    "distance_travelled",
    "duty_factor",
    "energy",
    "feet_in_contact",
    "foot_contact",
    "foot_duty_factor",
    "forward_velocity",
    "heading",
    "heading_rate",
    "heading_rotation",
    "heading_turns",
    "heading_velocity",
    "height",
    "height_above_start",
    "horizontal_speed",
    "joint_limit_closeness",
    "joint_position",
    "joint_range_use",
    "joint_speed",
    "joint_velocity",
    "lateral_velocity",
    "pitch",
    "pitch_rate",
    "pitch_rotation",
    "pitch_turns",
    "pole_angle",
    "pole_angles",
    "pole_rates",
    "power",
    "roll",
    "roll_rate",
    "roll_rotation",
    "roll_turns",
    "speed",
    "stride_alternation",
    "tip_height",
    "uprightness",
    "vertical_velocity",
    "x_position",
    "y_position",
    "yaw",
    "yaw_rate",
    "yaw_rotation",
    "yaw_turns",
]
