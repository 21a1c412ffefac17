"""Use a trained policy in a plain Gymnasium loop."""

import gymnasium

import telic

if __name__ == "__main__":
    run = telic.train("InvertedPendulum-v5", steps=30_000, videos="none")
    policy = telic.load_policy(run.path)
    env = gymnasium.make("InvertedPendulum-v5")
    obs, _ = env.reset(seed=0)
    steps, done = 0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        steps, done = steps + 1, terminated or truncated
    print(f"stood for {steps} steps")
    env.close()
