"""Train on another Gymnasium environment, here one with discrete actions."""

import telic

if __name__ == "__main__":
    run = telic.train("CartPole-v1", steps=20_000, settings={"num_envs": 16}, videos="none")
    print(f"{run.status}: upright for {run.best_return:.0f} of 500 steps")
