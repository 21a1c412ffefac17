class Weighted(RewardFunction):
    weights = {"speed": 2.0, "control": 0.1}

    def compute(self, obs, action, next_obs, info):
        speed = self.weights["speed"] * float(info["x_velocity"])
        control = -self.weights["control"] * float((action**2).sum())
        return speed + control, {"speed": speed, "control": control}
