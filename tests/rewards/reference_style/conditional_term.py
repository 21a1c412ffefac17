def reward_fn(obs, action, next_obs, info):
    terms = {"speed": info["x_velocity"]}
    if next_obs[0] > 0.0:
        terms["high"] = 2.0 * next_obs[0]
    return sum(terms.values()), terms
