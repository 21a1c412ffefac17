"""Each finding fires on the pattern it names, and not on healthy training."""

from typing import Any

from telic.training.results import Health


def row(step: int, **changes: Any) -> dict[str, Any]:
    healthy = {
        "global_step": step,
        "approx_kl": 0.01,
        "value_loss": 1.0,
        "explained_variance": 0.8,
        "policy_std": 0.5,
        "episodic_return": float(step),
        "reward_term_a": 1.0,
        "reward_term_b": 0.5,
    }
    return healthy | changes


def names(health: Health) -> list[str]:
    return [each.name for each in health.findings]


def watch(rows: int = 100, **changes: Any) -> Health:
    health = Health(["a", "b"], target_kl=0.02)
    for step in range(rows):
        given = {k: v(step) if callable(v) else v for k, v in changes.items()}
        health.watch(row(step, **given), progress=step / rows)
    return health


def test_healthy_training_has_no_findings():
    assert names(watch()) == []


def test_a_collapsed_deviation_is_found_once_with_its_number():
    health = watch(policy_std=0.001)
    assert names(health) == ["entropy_collapse"]
    assert health.findings[0].values == {"policy_std": 0.001}


def test_dead_and_dominant_terms_are_found_by_name():
    assert names(watch(reward_term_b=0.0)) == ["dominant_term:a", "dead_term:b"]
