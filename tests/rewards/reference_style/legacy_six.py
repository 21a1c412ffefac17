def reward_fn(obs, action, next_obs, info, mj_data, mj_model):
    z = mj_data.qpos[1]
    spin = mj_data.qvel[2]
    lift = max(z, 0.0)
    turn = min(abs(spin), 5.0)
    return lift + 0.1 * turn, {"lift": lift, "turn": 0.1 * turn}
