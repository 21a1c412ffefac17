_seen = []
_record = {"best": -1e9}


def reward_fn(obs, action, next_obs, info):
    _seen.append(info["x_position"])
    recent = _seen[-3:]
    pace = recent[-1] - recent[0]
    new = 1.0 if info["x_velocity"] > _record["best"] else 0.0
    _record["best"] = max(_record["best"], info["x_velocity"])
    return pace + new, {"pace": pace, "record": new}
