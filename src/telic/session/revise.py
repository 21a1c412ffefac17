"""The composer's reviser: what to change, from what the judge missed."""

from __future__ import annotations

from telic.session.records import Candidate, Iteration

# For each failure tag the terms to raise and to lower, in the words of the composer's rewards.
_EDITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "too_slow": (("speed",), ("control", "upright", "alive", "straight")),
    "stops": (("speed",), ("control",)),
    "wrong_speed": (("speed",), ("control",)),
    "falls": (("upright", "alive", "posture"), ("speed", "rise")),
    "drifts": (("still", "straight", "near"), ()),
    "too_low": (("height", "rise"), ("control",)),
    "too_far": (("near",), ("control",)),
    "under_rotates": (("turn", "spin"), ("rest", "control")),
    "over_rotates": (("rest",), ("spin",)),
    "no_landing": (("land", "rest"), ("spin",)),
    "jitters": (("control",), ()),
}
_UP, _DOWN = 2.0, 0.5
_LONGER = 1.6


def revise(history: list[Iteration], last: Candidate, weights: dict[str, float]) -> Candidate:
    """Return the next candidate: longer training, and weights changed for the worst lacks.

    Args:
        history: finished iterations, the latest last.
        last: the candidate of the latest.
        weights: its reward's own weights.
    """
    latest = history[-1]
    start = {**weights, **last.weights[latest.variant]}
    variants: list[dict[str, float]] = [start]
    for tag in latest.tags[:2]:
        raised, lowered = _EDITS.get(tag, ((), ()))
        variant = {
            name: round(value * (_UP if name in raised else _DOWN if name in lowered else 1.0), 6)
            for name, value in start.items()
        }
        if variant not in variants:
            variants.append(variant)
    what = ", ".join(latest.tags[:2]) or "a low score"
    return last.model_copy(
        update={
            "weights": tuple(variants),
            "steps": int(last.steps * _LONGER),
            "parent": latest.number,
            "change": f"against {what}: {len(variants)} sets of weights, {_LONGER:g} times as long",
        }
    )
