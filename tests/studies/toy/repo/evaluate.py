"""Evaluate a policy on starts that training never sees: how often does it arrive and stop?"""

import argparse
import json
from pathlib import Path

import numpy as np
from pointmass import HORIZON, PointMass

EPISODES = 200
EVAL_SEED = 12345


def evaluate(gains, episodes=EPISODES):
    env = PointMass()
    seen = env.reset(np.random.default_rng(EVAL_SEED), episodes)
    for _ in range(HORIZON):
        seen, _ = env.step(-(seen * gains).sum(-1))
    return {"success": float(env.has_arrived().mean()), "end_pace": float(env.pace().mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("policy", type=Path)
    args = parser.parse_args()
    found = evaluate(np.array(json.loads(args.policy.read_text())["gains"]))
    print(f"success: {found['success']:.3f}, end pace: {found['end_pace']:.3f}")


if __name__ == "__main__":
    main()
