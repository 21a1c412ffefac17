"""Train with your own reward, written as a class."""

import telic


class StandTall(telic.RewardFunction):
    """Reward a high torso with little effort."""

    weights = {"height": 1.0, "control": 0.01}
    latex = r"r = w_h z - w_c \|a\|^2"

    def compute(self, obs, action, next_obs, info):
        terms = {
            "height": self.weights["height"] * telic.quantities.height(info),
            "control": -self.weights["control"] * (action**2).sum(-1),
        }
        return sum(terms.values()), terms


if __name__ == "__main__":
    run = telic.train("Hopper-v5", StandTall, steps=20_000, videos="none")
    print(f"{run.status}: return {run.best_return:.0f} on fresh episodes, files in {run.path}")
