def reward_fn(obs, action, next_obs, info):
    ordered = sorted(abs(x) for x in action)
    strongest = ordered[-1] - ordered[0]
    steps = 0
    while steps < 5 and next_obs[0] * steps > -0.2:
        steps += 1
    return strongest + steps, {"strongest": strongest, "steps": steps}
