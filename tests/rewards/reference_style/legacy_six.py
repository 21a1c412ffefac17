def reward_fn(obs, action, next_obs, info, mj_data, mj_model):
    z = mj_data.qpos[1]
    spin = mj_data.qvel[2]
    shin = mj_data.qpos[mj_model.joint("bshin").qposadr[0]]
    weight = mj_model.body_mass[mj_model.body("torso").id] / mj_model.body_mass.sum()
    lift = max(z, 0.0) * weight
    turn = min(abs(spin), 5.0) * mj_model.opt.timestep
    bend = shin / (mj_model.joint("bshin").range[1] - mj_model.joint("bshin").range[0])
    return lift + turn + bend, {"lift": lift, "turn": turn, "bend": bend}
