def reward_fn(obs, action, next_obs, info):
    effort = 0.0
    for a in action:
        effort += a**2
    joints = [next_obs[i] for i in range(2, 8)]
    bend = sum(abs(j) for j in joints) / len(joints)
    widest = max(joints) - min(joints)
    moving = sum(float(v > 0.5) for v in next_obs[11:])
    weights = {"effort": -0.05, "bend": 0.2, "widest": 0.1, "moving": 0.01}
    values = {"effort": effort, "bend": bend, "widest": widest, "moving": moving}
    terms = {name: weights[name] * values[name] for name in weights}
    total = 0.0
    for name, value in terms.items():
        total += value
    return total, terms
