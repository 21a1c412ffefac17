"""Train a policy of two gains by the cross-entropy method; writes metrics.jsonl and policy.json."""

import argparse
import json
from pathlib import Path

import numpy as np
from evaluate import evaluate
from pointmass import HORIZON, PointMass
from reward import TERMS, WEIGHTS, compute_reward

POPULATION = 24
EPISODES = 20
ELITE = 6


def rollout(gains, rng, weights):
    """Return each policy's mean of every term over its episodes, and the sum of them."""
    env = PointMass()
    seen = env.reset(rng, POPULATION * EPISODES)
    each = np.repeat(gains, EPISODES, axis=0)[:, None, :]
    total = dict.fromkeys(TERMS, 0.0)
    for _ in range(HORIZON):
        seen, before = env.step(-(seen * each).sum(-1))
        for name, value in compute_reward(env, before, weights).items():
            total[name] = total[name] + value / HORIZON
    terms = {name: value.reshape(POPULATION, EPISODES).mean(-1) for name, value in total.items()}
    return terms, sum(terms.values())


def log_metrics(log, row):
    log.write(json.dumps(row) + "\n")


def train_policy(seed, steps, out, weights):
    rng = np.random.default_rng(seed)
    mean, spread = np.array([0.3, 1.0]), np.array([0.5, 0.5])
    done, per_round = 0, POPULATION * EPISODES * HORIZON
    with (out / "metrics.jsonl").open("w") as log:
        while done < steps:
            gains = mean + spread * rng.normal(size=(POPULATION, 2))
            terms, returns = rollout(gains, rng, weights)
            best = np.argsort(returns)[-ELITE:]
            mean = gains[best].mean(0)
            spread = 0.93 * spread + 0.07 * gains[best].std(0)
            done += per_round
            row = {"step": min(done, steps), "return": float(returns.mean()), **evaluate(mean)}
            row |= {f"reward/{name}": float(value.mean()) for name, value in terms.items()}
            log_metrics(log, row)
    (out / "policy.json").write_text(json.dumps({"gains": mean.tolist()}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=230_400)
    parser.add_argument("--out", type=Path, default=Path("runs/last"))
    for name, weight in WEIGHTS.items():
        parser.add_argument(f"--reward.{name}", type=float, default=weight)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    weights = {name: getattr(args, f"reward.{name}") for name in WEIGHTS}
    train_policy(args.seed, args.steps, args.out, weights)


if __name__ == "__main__":
    main()
