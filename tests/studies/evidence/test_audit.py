"""Audits: every check passes and fails, every verdict is reached, bad seeds cannot be dropped."""

import math

import numpy as np
import pytest

from telic.studies.documents.contract import Guardrail, Primary
from telic.studies.evidence.audit import Arm, ClaimFacts, audit_claim
from telic.studies.evidence.measurement import Measurement

OURS = [0.80, 0.84, 0.82, 0.86, 0.83]
THEIRS = [0.60, 0.64, 0.62, 0.66, 0.61]


def arm(name, scores, first=100, **changes):
    return Arm(
        candidate=name,
        content_hash=name,
        runs=tuple(
            Measurement(
                **{
                    "run": f"r-{name}-{i}",
                    "candidate": name,
                    "phase": "promotion",
                    "primary": value,
                    "seed": first + i,
                    "scores": {"": value},
                    "guardrails": {"falls": 0.1 + 0.001 * i},
                    "protocol_hash": "p",
                    "metric_spec_hash": "m",
                    "code_hash": "e",
                    "content_hash": name,
                    "is_clean": True,
                    "steps": 1e6 - 1000 * i,
                    "launched_steps": 1e6,
                    "wall_s": 60.0,
                    "hardware": "cpu",
                    **changes,
                }
            )
            for i, value in enumerate(scores)
        ),
    )


def facts(ours=OURS, theirs=THEIRS, **changes):
    return ClaimFacts(
        **{
            "id": "a-1",
            "at": "2026-08-01T00:00:00Z",
            "candidate": arm("new", ours),
            "incumbent": arm("old", theirs),
            "primary": Primary(key="success", direction="max"),
            "protocol_hash": "p",
            "checkpoint_selection": "last",
            "sigma_0": 0.02,
            "allowed_seeds": tuple(range(100, 200)),
            "selection_seeds": tuple(range(1, 100)),
            **changes,
        }
    )


def failed(audit):
    return {each.id for each in audit.checks if not each.passed}


def test_a_clear_improvement_is_valid():
    found = audit_claim(facts())
    assert found.verdict == "valid_improvement" and failed(found) == set()
    assert [each.id for each in found.checks] == [f"A{i:02d}" for i in range(1, 13)]
    # IQM of five: the middle three
    assert found.stats.delta == pytest.approx((0.82 + 0.83 + 0.84) / 3 - (0.61 + 0.62 + 0.64) / 3)
    assert found.stats.delta_min == pytest.approx(max(0.02 * (0.61 + 0.62 + 0.64) / 3, 0.01))
    assert found.stats.poi == 1.0 and found.stats.mwu_p == pytest.approx(1 / math.comb(10, 5))
    assert audit_claim(facts()) == found, "bit by bit"


def test_a_metric_to_be_minimized_is_turned():
    lower = facts(
        [0.2, 0.21, 0.19, 0.2, 0.22],
        [0.5, 0.51, 0.49, 0.52, 0.5],
        primary=Primary(key="error", direction="min"),
    )
    found = audit_claim(lower)
    assert found.verdict == "valid_improvement" and found.stats.delta > 0
    assert found.arms["x"].iqm == pytest.approx(0.2, abs=0.01)
    assert found.arms["x"].ci[0] <= found.arms["x"].iqm <= found.arms["x"].ci[1]
    worse = audit_claim(facts(primary=Primary(key="error", direction="min")))
    assert worse.verdict == "no_improvement"


def test_no_improvement_and_inconclusive():
    assert audit_claim(facts(THEIRS, THEIRS)).verdict == "no_improvement", "pair by pair the same"
    tight = audit_claim(facts([0.6] * 4 + [0.601], [0.6] * 4 + [0.601]))
    assert tight.verdict == "no_improvement" and "is required" in tight.reasons[-1]
    wide = audit_claim(facts([0.5, 0.9, 0.6, 0.8, 0.7], [0.5, 0.8, 0.55, 0.7, 0.6]))
    assert wide.verdict == "inconclusive"
    sigma, least = wide.stats.sigma, wide.stats.delta_min
    assert wide.n_star == math.ceil(12.4 * (sigma / least) ** 2)


def test_few_seeds_are_provisional_at_most():
    found = audit_claim(facts([0.80, 0.84, 0.82, 0.87], THEIRS[:4]))
    assert found.verdict == "provisional" and failed(found) == {"A09"}
    alike = audit_claim(facts(OURS[:4], THEIRS[:4]))
    assert alike.verdict == "inconclusive", "four signs that agree are no evidence yet"


def test_pairs_that_all_differ_alike_are_counted_by_their_signs():
    # Far more spread between seeds than the gain: only the pairs show it.
    found = audit_claim(facts([each + 0.1 for each in THEIRS], THEIRS, sigma_0=None))
    assert (found.verdict, found.stats.is_counted) == ("valid_improvement", True)
    assert found.stats.welch_p == pytest.approx(1 / 2**5)
    assert found.stats.ci == pytest.approx((0.1, 0.1)) and found.stats.poi == 1.0
    worse = audit_claim(facts([each - 0.1 for each in THEIRS], THEIRS))
    assert (worse.verdict, worse.stats.welch_p) == ("no_improvement", 1.0)
    again = audit_claim(facts([each + 0.1 for each in THEIRS], THEIRS, look=2))
    assert (again.verdict, again.n_star) == ("inconclusive", 6), "2^-5 > 0.025 > 2^-6"
    assert "too few pairs; a sign test requires 6 unanimous pairs" in again.reasons[-1]


def test_many_tries_need_more_evidence():
    ours = [0.66, 0.70, 0.65, 0.69, 0.68]
    alone = audit_claim(facts(ours, sigma_0=None))
    assert alone.verdict == "valid_improvement"
    among = audit_claim(facts(ours, sigma_0=None, other_p=tuple([0.5] * 400)))
    assert among.verdict == "inconclusive" and among.stats.holm_p > alone.stats.holm_p


VOID = [
    ("A01", {"altered": ("ledger",)}),
    ("A02", {"candidate": arm("new", OURS, content_hash="other")}),
    ("A02", {"candidate": arm("new", OURS, is_clean=None)}),
    ("A03", {"incumbent": arm("old", THEIRS, protocol_hash="q")}),
    ("A03", {"incumbent": arm("old", THEIRS, metric_spec_hash=None)}),
    ("A03", {"protocol_hash": "newer"}),
    ("A04", {"incumbent": arm("old", THEIRS, code_hash="f")}),
    ("A05", {"candidate": arm("new", OURS).model_copy(update={"unfinished": ("seed 105",)})}),
    ("A06", {"candidate": arm("new", OURS, first=98)}),
    ("A06", {"candidate": arm("new", OURS, first=300)}),
    ("A06", {"candidate": arm("new", OURS, seed=100)}),
    ("A08", {"candidate": arm("new", OURS, launched_steps=1.001e6)}),
    ("A08", {"candidate": arm("new", OURS, launched_steps=None)}),
    ("A08", {"candidate": arm("new", OURS, wall_s=62.0), "equal_budget": "wall_clock"}),
    ("A08", {"candidate": arm("new", OURS, wall_s=None), "equal_budget": "wall_clock"}),
    ("A11", {"diverged": ("nan_inf",)}),
    ("A11", {"is_risk_unreviewed": True}),
]


def test_what_voids_a_claim():
    for code, change in VOID:
        found = audit_claim(facts(**change))
        assert found.verdict == "invalid" and code in failed(found), (code, change)
    (reason,) = audit_claim(facts(candidate=arm("new", OURS, launched_steps=9e5))).reasons
    assert reason.startswith("A08: ") and "plan.steps" in reason, "it says what would mend it"


def test_the_budget_is_what_was_launched_not_what_was_logged_or_how_long_it_took():
    for change in ({"steps": 0.5e6}, {"steps": None}, {"wall_s": 6e3}, {"wall_s": None}):
        found = audit_claim(facts(candidate=arm("new", OURS, **change)))
        assert found.verdict == "valid_improvement", change
    free = {"launched_steps": None}
    arms = {"candidate": arm("new", OURS, **free), "incumbent": arm("old", THEIRS, **free)}
    assert audit_claim(facts(**arms)).verdict == "valid_improvement", "no {steps} in the command"


def test_other_hardware_alone_is_inconclusive():
    found = audit_claim(facts(candidate=arm("new", OURS, hardware="gpu")))
    assert found.verdict == "inconclusive" and failed(found) == {"A12"}


GUARD = {"key": "falls", "direction": "min"}


def test_guardrails_are_tested_by_their_interval():
    for rule, passes in (
        ({"rule": "absolute", "threshold": 0.2}, True),
        ({"rule": "absolute", "threshold": 0.101}, False),  # the mean is 0.102
        ({"rule": "non_inferior", "margin": 0.05}, True),
        ({"rule": "non_inferior", "margin": 0.0001}, False),
        ({"key": "unmeasured", "rule": "absolute", "threshold": 9}, False),
        ({"rule": "absolute", "threshold": 0.1, "severity": "warn"}, True),
    ):
        found = audit_claim(facts(guardrails=(Guardrail(**{**GUARD, **rule}),)))
        assert ("A10" not in failed(found)) is passes
        assert found.verdict == ("valid_improvement" if passes else "inconclusive")


def test_a_baseline_measures_the_noise_floor():
    found = audit_claim(facts(incumbent=None))
    assert found.verdict == "baseline_established" and set(found.arms) == {"x"}
    assert found.stats.sigma_0 == pytest.approx(np.std(OURS, ddof=1))
    low, high = found.stats.sigma_0_ci
    assert low < found.stats.sigma_0 < high
    few = audit_claim(facts(OURS[:3], incumbent=None))
    assert few.verdict == "inconclusive"
    broken = audit_claim(facts(incumbent=None, altered=("ledger",)))
    assert broken.verdict == "invalid"


def test_the_rule_rarely_accepts_noise():
    """Five against five without any difference: at most a few in a hundred pass."""
    rng = np.random.default_rng(11)
    accepted = 0
    for trial in range(100):
        pair = [rng.normal(1, 0.1, 5).tolist() for _ in range(2)]
        primary = Primary(key="s", direction="max", min_effect_rel=0)
        found = audit_claim(facts(*pair, id=f"a-{trial}", sigma_0=None, primary=primary))
        accepted += found.verdict == "valid_improvement"
    assert accepted <= 8
