def reward_fn(obs, action, next_obs, info):
    data = info["mj_data"]
    torso = data.body("torso").xpos
    foot = data.body("ffoot")
    height = float(torso[2])
    reach = float(np.linalg.norm(foot.xpos - torso))
    w, x, y, z = data.body("torso").xquat
    upright = 1.0 - 2.0 * (x * x + y * y)
    push = float(np.linalg.norm(data.cfrc_ext[1:, 3:]) * 1e-3)
    bend = float(data.qpos[3] - data.joint("bshin").qpos[0])
    effort = float(np.sum(np.abs(data.ctrl * data.qvel[3:])))
    terms = {
        "height": height,
        "reach": reach,
        "upright": float(upright),
        "push": -push,
        "bend": bend,
        "effort": -0.01 * effort,
    }
    return sum(terms.values()), terms
