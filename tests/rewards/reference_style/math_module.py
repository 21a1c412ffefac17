from math import exp, pi


def reward_fn(obs, action, next_obs, info):
    import math

    import numpy

    tilt = math.fabs(next_obs[1])
    level = exp(-tilt) * math.cos(tilt / pi)
    speed = math.tanh(info["x_velocity"])
    jump = math.sqrt(max(next_obs[0], 0.0)) + math.hypot(next_obs[2], next_obs[3])
    effort = float(numpy.square(action).mean())
    rounded = round(next_obs[4], 1) + int(next_obs[9])
    return level + speed + jump - effort + rounded, {
        "level": level,
        "speed": speed,
        "jump": jump,
        "effort": -effort,
        "rounded": rounded,
    }
