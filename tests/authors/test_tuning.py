"""Weights are tuned by numbers: towards what the judge scored best, and always the same."""

import math

import numpy as np

from telic.authors.ranking import GENERATION, ScoredWeights, next_generation

START = {"speed": 1.0, "control": 0.1, "down": -2.0, "left_out": 0.0}


def test_a_generation_keeps_signs_and_terms_that_were_left_out():
    sets = next_generation(START, [], seed=1)
    assert len(sets) == GENERATION - 1 and len({str(each) for each in sets}) == len(sets)
    for each in sets:
        assert set(each) == set(START) and each["left_out"] == 0.0
        assert each["down"] < 0 < each["speed"]
    assert next_generation(START, [], seed=1) == sets != next_generation(START, [], seed=2)


def found(seed, generations=8):
    """Return the score at the start and the best one found, where scores are noisy."""
    chance = np.random.default_rng(seed)
    best = {name: math.exp(chance.standard_normal()) for name in ("speed", "control", "tall")}

    def score(weights):
        return math.exp(-0.3 * sum(math.log(weights[n] / best[n]) ** 2 for n in best))

    start = dict.fromkeys(best, 1.0)
    tried = [ScoredWeights(start, score(start))]
    for generation in range(generations):
        top = max(tried, key=lambda each: each.score)
        sets = next_generation(top.weights, tried, seed=100 * seed + generation)
        tried += [ScoredWeights(w, score(w) + 0.02 * chance.standard_normal()) for w in sets]
    return score(start), score(max(tried, key=lambda each: each.score).weights)


def test_generations_find_the_weights_that_score_best():
    started, ended = np.mean([found(seed) for seed in range(20)], axis=0)
    assert started < 0.65 and ended > 0.9
    assert started < np.mean([found(seed, 1)[1] for seed in range(20)]) < ended
