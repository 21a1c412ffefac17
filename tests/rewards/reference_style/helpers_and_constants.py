WEIGHTS = {"speed": 1.5, "alive": 0.5, "energy": 0.01}
tolerance = lambda x, width: 1.0 if abs(x) < width else max(0.0, 1.0 - abs(x) / (5.0 * width))


def energy(action, velocity):
    power = [abs(a * v) for a, v in zip(action, velocity)]
    return sum(power)


def reward_fn(obs, action, next_obs, info):
    terms = {}
    terms["speed"] = WEIGHTS["speed"] * tolerance(info["x_velocity"] - 1.0, 0.3)
    terms["alive"] = WEIGHTS["alive"] if next_obs[0] > -0.1 else 0.0
    terms["energy"] = -WEIGHTS["energy"] * energy(action, next_obs[11:17])
    if next_obs[1] > 0.05:
        terms["energy"] *= 2.0
    return sum(terms.values()), terms
