def reward_fn(obs, action, next_obs, info):
    """Reward running forward.

    LaTeX: r = v_x - 0.1 \|a\|^2

    Terms:
    - forward: speed along x, $v_x$
    - ctrl (weight=0.1): control cost, $-0.1 \|a\|^2$
    """
    forward = float(info.get("x_velocity", 0.0))
    ctrl = -0.1 * float(np.sum(np.square(action)))
    return forward + ctrl, {"forward": forward, "ctrl": ctrl}
