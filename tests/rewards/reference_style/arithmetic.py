def reward_fn(obs, action, next_obs, info):
    speed = info["x_velocity"] - abs(next_obs[1])
    effort = -0.1 * (action**2).sum()
    return speed + effort, {"speed": speed, "effort": effort, "alive": 0.0}
