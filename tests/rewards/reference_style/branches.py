

def reward_fn(obs, action, next_obs, info):
    z = float(next_obs[0])
    v = info["x_velocity"]
    if z > 0.0 and not v < 0.1:
        stage, bonus = 2.0, 0.5
    elif -0.2 < z <= 0.0 or v > 1.0:
        stage = 1.0
        bonus = 0.1 * v
    else:
        stage = bonus = 0.0
    speed = v if v > 0 else 2.0 * v
    posture = 0.0
    if abs(next_obs[1]) < 0.3:
        posture += 1.0
        if stage > 1.5:
            posture *= 2.0
    terms = {"speed": speed, "stage": stage, "bonus": bonus, "posture": posture}
    return sum(terms.values()), terms
