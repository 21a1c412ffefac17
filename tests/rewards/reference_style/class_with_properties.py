from prompt2policy.training.rewards import RewardFunction


class Gallop(RewardFunction):
    """Gallop with a level back."""

    @property
    def latex(self):
        return r"r = v_x + e^{-\theta^2}"

    @property
    def terms(self):
        return {"speed": "forward speed", "level": "level back"}

    def compute(self, obs, action, next_obs, info):
        speed = float(info["x_velocity"])
        level = float(np.exp(-(next_obs[1] ** 2)))
        terms = {"speed": speed, "level": level}
        total = sum(terms.values())
        return total, terms
