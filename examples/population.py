"""Compare two discount factors over two seeds by training four policies in one process."""

import json

import telic

if __name__ == "__main__":
    run = telic.train(
        "InvertedPendulum-v5",
        steps=20_000,
        seeds=(1, 2),
        variants=[{"gamma": 0.9}, {"gamma": 0.99}],
        videos="none",
    )
    for member in run.summary["members"]:
        best = json.loads((run.path / member / "summary.json").read_text())["best"]
        print(f"{member}: {best['mean_return']:.0f} {best['interval']}")
