def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


def reward_fn(obs, action, next_obs, info):
    z = next_obs[0]
    if z < -0.12:
        return -1.0, {"fall": -1.0, "speed": 0.0}
    speed = clamp(info["x_velocity"], -0.5, 0.5)
    if z > 0.03:
        speed = speed * 2.0
        return speed, {"fall": 0.0, "speed": speed}
    return speed + 0.1, {"fall": 0.1, "speed": speed}
