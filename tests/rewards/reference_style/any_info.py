def reward_fn(obs, action, next_obs, info):
    parts = {name[7:]: float(value) for name, value in info.items() if name.startswith("reward_")}
    return sum(parts.values()), parts
