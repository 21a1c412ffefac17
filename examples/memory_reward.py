"""Reward with memory that pays once for every full turn."""

import torch

import telic


class Somersaults(telic.RewardFunction):
    """Count turns about the pitch axis. The critic observes the count, but the policy does not."""

    memory = {"angle": 0.0, "paid": 0.0}

    def compute(self, obs, action, next_obs, info):
        angle = self.memory["angle"] + telic.quantities.pitch_rate(info) * info["dt"]
        turns = torch.floor(angle.abs() / (2 * torch.pi))
        fresh = (turns - self.memory["paid"]).clamp_min(0.0)
        self.memory["angle"], self.memory["paid"] = angle, torch.maximum(turns, self.memory["paid"])
        terms = {"turn": 10.0 * fresh, "spin": 0.1 * telic.quantities.pitch_rate(info).abs()}
        return sum(terms.values()), terms


if __name__ == "__main__":
    run = telic.train("HalfCheetah-v5", Somersaults, steps=20_000, videos="none")
    print(f"{run.status}: return {run.best_return:.1f}")
