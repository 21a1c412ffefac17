"""Check the stated confidence by simulating sessions on policies whose true score is known.

    python benchmarks/confidence.py            the measurements of docs/explanation/judging.md
    python benchmarks/confidence.py --sessions 200

The first table compares lower bounds of a mean: how much 64 episodes prove, and how often the bound
is wrong. The second table simulates whole sessions as in `telic.session`: several iterations with
three policies each, interim evaluations, selection on some episodes and confirmation on others.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from published import publish

from telic.authors.request import EPISODES, ITERATIONS, THRESHOLD
from telic.core.confidence import ALPHA, fewest_scores, proven_mean, proves, spending
from telic.session._judgment import CHOOSING, INTERIM_EVALUATIONS, MAX_TIMES

POLICIES, NEEDED = 3, 2
Draw = Callable[[np.random.Generator, int], np.ndarray]


class Worth(NamedTuple):
    """Policy with a known true score."""

    name: str
    mean: float
    draw: Draw


def bernoulli(mean: float) -> Worth:
    """Scores of either 0 or 1."""
    return Worth(
        f"all or nothing, {mean:g}", mean, lambda chance, n: (chance.random(n) < mean).astype(float)
    )


def beta(mean: float, sharpness: float) -> Worth:
    """Scores with a smooth distribution."""
    one, other = mean * sharpness, (1.0 - mean) * sharpness
    return Worth(f"smooth, {mean:g}", mean, lambda chance, n: chance.beta(one, other, n))


def two_points(mean: float, failing: float) -> Worth:
    """Equal scores except for a few of 0, which a small sample misses."""
    usual = mean / (1.0 - failing)
    return Worth(
        f"{failing:.0%} worth nothing, {mean:g}",
        mean,
        lambda chance, n: np.where(chance.random(n) < failing, 0.0, usual),
    )


def saturated(mean: float) -> Worth:
    """Mostly full scores, with the rest distributed evenly."""
    short = 2.0 * (1.0 - mean)

    def draw(chance: np.random.Generator, n: int) -> np.ndarray:
        return np.where(chance.random(n) < short, chance.random(n), 1.0)

    return Worth(f"mostly full marks, {mean:g}", mean, draw)


def constant(mean: float) -> Worth:
    """Constant scores."""
    return Worth(f"always {mean:g}", mean, lambda chance, n: np.full(n, mean))


# ------------------------------------------------------------------------------------ other bounds


_DRAWS = {n: np.random.default_rng(0).integers(0, n, (1000, n)) for n in (12, EPISODES)}


def bootstrap(scores: np.ndarray, alpha: float) -> float:
    """Percentiles of resampled means (bootstrap)."""
    return float(np.quantile(scores[_DRAWS[len(scores)]].mean(1), alpha))


def hoeffding(scores: np.ndarray, alpha: float) -> float:
    """Bound of Hoeffding (1963)."""
    return float(scores.mean() - math.sqrt(math.log(1.0 / alpha) / (2.0 * len(scores))))


def bernstein(scores: np.ndarray, alpha: float) -> float:
    """Bound of Maurer and Pontil (2009), based on the empirical variance."""
    n, term = len(scores), math.log(2.0 / alpha)
    return float(
        scores.mean()
        - math.sqrt(2.0 * scores.var(ddof=1) * term / n)
        - 7.0 * term / (3.0 * (n - 1))
    )


def anderson(scores: np.ndarray, alpha: float) -> float:
    """Bound of Anderson (1969): the mean of the lowest distribution that DKW allows."""
    n = len(scores)
    above = np.minimum(1.0, np.arange(n + 1) / n + math.sqrt(math.log(1.0 / alpha) / (2.0 * n)))
    return float(((1.0 - above) * np.diff(np.concatenate(([0.0], np.sort(scores), [1.0])))).sum())


_ORDERS = np.sort(np.random.default_rng(1).random((4000, EPISODES)), axis=1)


def gaffke(scores: np.ndarray, alpha: float) -> float:
    """Bound of Gaffke (2005), see Learned-Miller and Thomas (2019). The validity is not proven."""
    gaps = np.diff(np.concatenate((np.sort(1.0 - scores), [1.0])))
    return float(1.0 - np.quantile(1.0 - _ORDERS @ gaps, 1.0 - alpha))


BOUNDS: dict[str, Callable[[np.ndarray, float], float]] = {
    "bootstrap": bootstrap,
    "Hoeffding": hoeffding,
    "empirical Bernstein": bernstein,
    "Anderson": anderson,
    "Gaffke": gaffke,
    "betting": lambda scores, alpha: proven_mean(list(scores), alpha),
}


def compare_bounds(sessions: int) -> list[str]:
    """Return the first table: mean bound of 64 episodes, and the fraction of bounds that hold."""
    worths = [
        constant(0.85),
        beta(0.9, 8.0),
        bernoulli(0.95),
        saturated(0.95),
        two_points(0.9, 0.05),
        bernoulli(0.99),
        two_points(0.8, 0.01),
    ]
    lines = [f"| scores | {' | '.join(BOUNDS)} |", f"|---|{'---|' * len(BOUNDS)}"]
    rows: list[dict[str, Any]] = []
    for worth in worths:
        chance = np.random.default_rng(0)
        samples = [worth.draw(chance, EPISODES) for _ in range(sessions)]
        cells, row = list[str](), dict[str, Any](scores=worth.name)
        for name, bound in BOUNDS.items():
            lows = np.array([bound(sample, ALPHA) for sample in samples])
            held = (lows <= worth.mean + 1e-9).mean()
            cells.append(f"{lows.mean():.2f} ({held:.1%})")
            row |= {name: round(lows.mean(), 3), f"{name} held": held}
        lines.append(f"| {worth.name} | {' | '.join(cells)} |")
        rows.append(row)
    publish("confidence", rows)
    return lines


# ---------------------------------------------------------------------------------- whole sessions


class Claim(NamedTuple):
    """Claim of a session about the policy that it delivers."""

    passed: bool
    low: float
    truth: float


def session(worths: list[Worth], chance: np.random.Generator, iterations: int) -> Claim:
    """Return the claim of a session whose policies at every checkpoint are drawn from `worths`."""
    last: Claim | None = None
    for number in range(1, iterations + 1):
        seen: list[tuple[float, Worth]] = [(-1.0, worths[0])] * POLICIES
        for look in range(1, INTERIM_EVALUATIONS + 2):
            policies = [worths[chance.integers(len(worths))] for _ in range(POLICIES)]
            alpha = spending(
                number, POLICIES, INTERIM_EVALUATIONS, is_last=look > INTERIM_EVALUATIONS
            )
            choosing = [policy.draw(chance, CHOOSING) for policy in policies]
            scored = [
                (float(own.mean()), policy) for own, policy in zip(choosing, policies, strict=True)
            ]
            seen = [max(pair, key=lambda each: each[0]) for pair in zip(seen, scored, strict=True)]
            if look <= INTERIM_EVALUATIONS:
                times = -(-_usual(alpha) // CHOOSING)
                promising = sum(proves([*own] * times, THRESHOLD, alpha) for own in choosing)
                if promising < NEEDED:
                    continue
            else:
                scored = seen
            claim = _confirmed(scored, alpha, chance)
            if claim.passed:
                return claim
            last = claim
    assert last is not None
    return last


def _usual(alpha: float) -> int:
    return max(EPISODES, fewest_scores(THRESHOLD, alpha))


def _confirmed(
    chosen: list[tuple[float, Worth]], alpha: float, chance: np.random.Generator
) -> Claim:
    usual = _usual(alpha)
    scores = [policy.draw(chance, usual) for _, policy in chosen]
    while True:
        proven = [proves(own.tolist(), THRESHOLD, alpha) for own in scores]
        going_on = [
            place
            for place, own in enumerate(scores)
            if not proven[place] and own.mean() >= THRESHOLD and len(own) < MAX_TIMES * usual
        ]
        if sum(proven) >= NEEDED or sum(proven) + len(going_on) < NEEDED:
            break
        for place in going_on:
            more = chosen[place][1].draw(chance, usual)
            scores[place] = np.concatenate((scores[place], more))
    best = max(range(len(chosen)), key=lambda place: (proven[place], chosen[place][0]))
    low = proven_mean(list(scores[best]), alpha)
    return Claim(sum(proven) >= NEEDED, low, chosen[best][1].mean)


def earlier_session(worths: list[Worth], chance: np.random.Generator, iterations: int) -> Claim:
    """Return the claim of the earlier method, a bootstrap of twelve episodes."""
    best = Claim(False, 0.0, 1.0)
    for _ in range(iterations):
        policies = [worths[chance.integers(len(worths))] for _ in range(POLICIES)]
        lows = [bootstrap(policy.draw(chance, 12), ALPHA / 2.0) for policy in policies]
        place = int(np.argmax(lows))
        passed = sum(low >= THRESHOLD for low in lows) >= NEEDED
        best = max(best, Claim(passed, lows[place], policies[place].mean))
        if passed:
            break
    return best


SCENARIOS: dict[str, list[Worth]] = {
    "all or nothing, just below": [bernoulli(THRESHOLD - 0.01)],
    "smooth, just below": [beta(THRESHOLD - 0.01, 8.0)],
    "always the same, just below": [constant(THRESHOLD - 0.001)],
    "1 % worth nothing, just below": [two_points(THRESHOLD - 0.001, 0.01)],
    "mostly full marks, just below": [saturated(THRESHOLD - 0.01)],
    "a mixture around the threshold": [
        bernoulli(0.75),
        beta(0.78, 8.0),
        saturated(0.82),
        two_points(0.79, 0.02),
    ],
    "learning, and mostly poor": [beta(0.3, 4.0), beta(0.6, 4.0), bernoulli(0.79)],
    "good: always 0.9": [constant(0.9)],
    "good: smooth, 0.9": [beta(0.9, 8.0)],
    "good: all or nothing, 0.95": [bernoulli(0.95)],
    "barely good: smooth, 0.83": [beta(0.83, 8.0)],
}


Play = Callable[[list[Worth], np.random.Generator, int], Claim]


class Calibration(NamedTuple):
    """Results of sessions of one kind, as fractions."""

    held: float
    """whether the claim about the delivered policy is true"""
    passed: float
    passed_wrongly: float
    """whether the true score of the policy is below the threshold"""


def calibrate(name: str, sessions: int, play: Play = session) -> Calibration:
    """Simulate sessions of one scenario."""
    chance = np.random.default_rng(0)
    claims = [play(SCENARIOS[name], chance, ITERATIONS) for _ in range(sessions)]
    wrong = [claim.passed and claim.truth < THRESHOLD for claim in claims]
    return Calibration(
        held=float(np.mean([claim.low <= claim.truth + 1e-9 for claim in claims])),
        passed=float(np.mean([claim.passed for claim in claims])),
        passed_wrongly=float(np.mean(wrong)),
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    sessions = parser.parse_args().sessions
    print("\n".join(compare_bounds(sessions)), end="\n\n")
    print("| policies | claim holds | passed | passed wrongly | claim held before | wrongly |")
    print("|---|---|---|---|---|---|")
    for name in SCENARIOS:
        now, before = calibrate(name, sessions), calibrate(name, sessions, earlier_session)
        cells = (now.held, now.passed, now.passed_wrongly, before.held, before.passed_wrongly)
        print(f"| {name} | {' | '.join(f'{cell:.1%}' for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
