"""The fixed rule that makes one verdict of two, by hand."""

import re
from pathlib import Path

import numpy as np
import pytest

from telic.judges.criteria import require, score, total_score
from telic.judges.fusion import CODE_WEIGHT, MARGIN, extend, fuse, resolve
from telic.judges.verdict import WHOLE, Verdict, VisionScore, judged, together, unknown

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "judging.md"
EXAMPLES = re.findall(
    r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text(), re.MULTILINE
)


def measured(**credits):
    """Return a code verdict with a leaf per name; "upright" is a guard."""
    scores = [
        (require if name == "upright" else score)(
            name, value, zero=0.0, goal=1.0, unit="m/s", tag=f"not_{name}"
        )
        for name, value in credits.items()
    ]
    return judged(scores, total_score(scores))


def watched(whole, *, spread=None, tags=(), **scores):
    seen = [
        VisionScore(
            criterion=name, score=score, answers=(score,), start_s=1.0, end_s=2.0, evidence=name
        )
        for name, score in {**scores, WHOLE: whole}.items()
    ]
    return Verdict(source="vision", score=whole, seen=tuple(seen), spread=spread, tags=tags)


def test_agreement_is_the_weighted_mean_and_keeps_both_scores():
    fused = fuse(measured(runs=0.8), watched(0.6, runs=0.6))
    assert fused.source == "fused" and fused.disagreements == ()
    assert fused.score == pytest.approx(0.7 * 0.8 + 0.3 * 0.6)
    assert fused.by_judge == {"code": 0.8, "vision": 0.6}
    assert fused.criteria[0].counted == pytest.approx(0.8) and fused.seen[0].score == 0.6


@pytest.mark.parametrize(
    ("code", "vision", "score"), [(1.0, 0.2, 0.2 + 0.7 * 0.25), (0.2, 1.0, 0.2 + 0.3 * 0.25)]
)
def test_disagreement_on_the_whole_stays_near_the_lower_score_and_says_why(code, vision, score):
    fused = fuse(measured(runs=code), watched(vision))
    assert fused.score == pytest.approx(score)
    (dispute,) = fused.disagreements
    assert (dispute.criterion, dispute.code, dispute.vision) == (WHOLE, code, vision)
    assert f"runs: {code:g} m/s" in dispute.measured and dispute.seen == WHOLE
    assert (dispute.start_s, dispute.end_s, dispute.margin) == (1.0, 2.0, 0.25)
    assert not dispute.resolved and dispute.asked_again is None


def test_a_criterion_in_dispute_counts_what_was_seen_and_the_margin():
    # (1.0 + 0.2 + 0.25) / 2 = 0.725 by the criteria, then 0.3 of what the whole is above it
    fused = fuse(measured(runs=1.0, lands=1.0), watched(0.9, runs=1.0, lands=0.2))
    assert fused.score == pytest.approx(0.725 + 0.3 * 0.175)
    assert [each.criterion for each in fused.disagreements] == ["lands"]
    assert [each.counted for each in fused.criteria] == [1.0, 0.45]
    assert [each.passed for each in fused.criteria] == [True, False]
    assert fused.tags == ("not_lands",)


def test_one_unknown_judge_leaves_the_score_to_the_other_and_is_named():
    code, vision = measured(runs=0.9), watched(0.4, tags=("falls",))
    alone = fuse(code, unknown("vision", "the service is down"))
    assert alone.source == "fused" and alone.score == code.score and alone.criteria == code.criteria
    assert alone.reason == "code only; vision is unknown: the service is down"
    assert alone.by_judge == {"code": 0.9, "vision": None}
    seen = fuse(unknown("code", "judge_fn.py: KeyError"), vision)
    assert seen.score == 0.4 and seen.tags == ("falls",) and "KeyError" in (seen.reason or "")
    neither = fuse(unknown("code", "a"), unknown("vision", "b"))
    assert neither.score is None and neither.reason == "code: a; vision: b"


def test_a_second_look_that_agrees_resolves_the_dispute_and_keeps_it_on_record():
    code, vision = measured(runs=1.0), watched(0.3, runs=0.2)
    disputes = fuse(code, vision).disagreements
    settled = resolve(code, vision, watched(0.9, runs=0.8), disputes)
    assert settled.score == pytest.approx(0.7 + 0.3 * 0.9)
    assert [(each.criterion, each.vision, each.asked_again) for each in settled.disagreements] == [
        ("runs", 0.2, 0.8),
        (WHOLE, 0.3, 0.9),
    ]
    assert all(each.resolved for each in settled.disagreements)
    assert settled.by_judge == {"code": 1.0, "vision": 0.9}


def test_a_second_look_that_still_disagrees_or_cannot_see_lowers_the_score():
    code, vision = measured(runs=1.0), watched(0.3, runs=0.2)
    disputes = fuse(code, vision).disagreements
    firm = resolve(code, vision, watched(0.2, runs=0.1), disputes)
    assert firm.score == pytest.approx(0.2 + 0.7 * 0.15)  # 0.35 by the criterion, 0.2 the whole
    assert [each.resolved for each in firm.disagreements] == [False, False]
    blind = resolve(code, vision, unknown("vision", "too dark"), disputes)
    assert blind.score == fuse(code, vision).score
    assert [each.asked_again for each in blind.disagreements] == [None, None]


def test_unwatched_episodes_get_the_deduction_of_the_watched_ones():
    code = [measured(runs=score) for score in (0.2, 0.3, 0.6, 0.9, 1.0)]
    fused = {0: fuse(code[0], watched(0.2)), 4: fuse(code[4], watched(0.1))}
    loss = 1.0 - 0.1 - 0.7 * 0.25
    every = extend(code, fused)
    shares = (0.0, 0.125, 0.5, 0.875, 1.0)  # of the way from the first to the last
    wanted = [own.score - share * loss for own, share in zip(code, shares, strict=True)]
    assert [each.score for each in every] == pytest.approx(wanted)
    assert every[0] is fused[0] and every[4] is fused[4]
    assert f"lowered by {0.875 * loss:.2f}" in (every[3].reason or "")
    assert every[3].by_judge["code"] == 0.9
    assert together(every).score == pytest.approx(sum(wanted) / 5)


@pytest.mark.parametrize("seen", [0.9, 0.1, None])
@pytest.mark.parametrize("measures", [0.8, None])
def test_whatever_the_judges_say_a_verdict_keeps_the_recording_it_is_about(measures, seen):
    code = unknown("code", "no column") if measures is None else measured(runs=measures)
    code = code.model_copy(update={"recording": "a" * 64})
    vision = unknown("vision", "down") if seen is None else watched(seen, runs=seen)
    fused = fuse(code, vision)
    again = resolve(code, vision, watched(0.5, runs=0.5), fused.disagreements)
    unwatched = code.model_copy(update={"recording": "b" * 64})
    first, other = extend([code, unwatched], {0: fused})
    assert fused.recording == again.recording == first.recording == "a" * 64
    assert other.recording == "b" * 64


@pytest.mark.parametrize("example", EXAMPLES, ids=" ".join)
def test_the_examples_of_the_documentation_come_out_as_written(example):
    code, vision, spread, fused = map(float, example)
    made = fuse(measured(runs=code), watched(vision, spread=spread))
    assert made.score == pytest.approx(fused)


def test_the_documentation_states_weights_and_margin():
    page = PAGE.read_text()
    assert len(EXAMPLES) == 4
    assert f"{CODE_WEIGHT:g} code + {1 - CODE_WEIGHT:.1f} vision" in page
    assert f"**margin**: {MARGIN:g} or the spread" in page


# ------------------------------------------------------- what holds for any two judges


def _case(rng):
    """Return what two judges say of an episode, as numbers that can be nudged one by one."""
    titles = ["runs", "lands", "upright"][: rng.integers(1, 4)]
    numbers = {f"code {title}": rng.uniform() for title in titles}
    numbers |= {f"seen {title}": rng.uniform() for title in titles if rng.uniform() < 0.8}
    return {**numbers, "whole": rng.uniform()}, rng.choice([None, 0.1, 0.6])


def _fused(numbers, spread):
    def named(kind):
        return {
            name.removeprefix(kind): float(value)
            for name, value in numbers.items()
            if name.startswith(kind)
        }

    unseen = dict.fromkeys(named("code "))
    seen = {**unseen, **named("seen ")}
    return fuse(measured(**named("code ")), watched(float(numbers["whole"]), spread=spread, **seen))


def test_no_input_moves_the_score_by_more_than_itself_nor_the_wrong_way():
    rng = np.random.default_rng(0)
    for _ in range(300):
        numbers, spread = _case(rng)
        before = _fused(numbers, spread).score
        for name, value in numbers.items():
            step = min(float(rng.choice([1e-6, 0.01, 0.1, 0.5])), 1.0 - value)
            after = _fused({**numbers, name: value + step}, spread).score
            assert -1e-9 <= after - before <= step + 1e-9, (name, numbers, spread)


def test_the_score_lies_between_the_lowest_and_the_highest_that_anybody_gave():
    rng = np.random.default_rng(1)
    for _ in range(500):
        numbers, spread = _case(rng)
        fused = _fused(numbers, spread)
        seen = [value for name, value in numbers.items() if not name.startswith("code ")]
        assert min([fused.by_judge["code"], *seen]) - 1e-9 <= fused.score
        assert fused.score <= max(fused.by_judge["code"], numbers["whole"]) + 1e-9


def test_equal_episodes_are_averaged_and_nothing_is_gained():
    code = [measured(runs=0.8)] * 3
    fused = {0: fuse(code[0], watched(0.2)), 2: fuse(code[2], watched(0.8))}
    assert extend(code, fused)[1].score == pytest.approx((0.2 + 0.7 * 0.25 + 0.8) / 2)
    better = {0: fuse(code[0], watched(1.0))}
    assert extend(code, better)[1] is code[1]
    assert extend(code, {}) == code
    blind = [unknown("code", "broken"), code[1]]
    assert extend(blind, {1: fuse(code[1], watched(0.0))})[0].score is None
