def _make_reward():
    state = {"start": None, "best": 0.0}

    def reward_fn(obs, action, next_obs, info):
        if info["_episode_start"] or state["start"] is None:
            state["start"] = info["x_position"]
            state["best"] = 0.0
        distance = info["x_position"] - state["start"]
        progress = max(0.0, distance - state["best"])
        state["best"] = max(state["best"], distance)
        return 10.0 * progress, {"progress": 10.0 * progress}

    return reward_fn


reward_fn = _make_reward()
