class Reward:
    def compute(self, obs, action, next_obs, info):
        up = np.cos(next_obs[1])
        bonus = 1.0 if (up > 0.9) & (info["x_velocity"] > 0) else 0.0
        return up + bonus, {"up": up, "bonus": bonus}
