"""The fixed rule that makes one verdict of two, by hand."""

import re
from pathlib import Path

import pytest

from telic.judges.criteria import require, score, score_near, total
from telic.judges.verdict import WHOLE, Seen, Verdict, judged, together, unknown
from telic.judges.vision import CODE_WEIGHT, MARGIN, extend, fuse, resolve

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "judging.md"
EXAMPLES = re.findall(
    r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text(), re.MULTILINE
)


def measured(**credits):
    """Return a code verdict with a leaf per name; "upright" is a guard."""
    leaves = [
        (require if name == "upright" else score)(
            name, value, zero=0.0, goal=1.0, unit="m/s", tag=f"not_{name}"
        )
        for name, value in credits.items()
    ]
    return judged(leaves, total(leaves))


def watched(whole, *, spread=None, tags=(), **scores):
    seen = [
        Seen(criterion=name, score=score, answers=(score,), start_s=1.0, end_s=2.0, evidence=name)
        for name, score in {**scores, WHOLE: whole}.items()
    ]
    return Verdict(source="vision", score=whole, seen=tuple(seen), spread=spread, tags=tags)


def test_agreement_is_the_weighted_mean_and_keeps_both_scores():
    fused = fuse(measured(runs=0.8), watched(0.6, runs=0.6))
    assert fused.source == "fused" and fused.disagreements == ()
    assert fused.score == pytest.approx(0.7 * 0.8 + 0.3 * 0.6)
    assert fused.by_judge == {"code": 0.8, "vision": 0.6}
    assert fused.leaves[0].counted == pytest.approx(0.8) and fused.seen[0].score == 0.6


def test_a_difference_of_just_the_margin_is_agreement():
    assert fuse(measured(runs=0.75), watched(0.5)).disagreements == ()
    assert len(fuse(measured(runs=0.76), watched(0.5)).disagreements) == 1


@pytest.mark.parametrize(("code", "vision"), [(1.0, 0.2), (0.2, 1.0)])
def test_disagreement_on_the_whole_is_the_lower_score_and_says_why(code, vision):
    fused = fuse(measured(runs=code), watched(vision))
    assert fused.score == pytest.approx(0.2)
    (dispute,) = fused.disagreements
    assert (dispute.criterion, dispute.code, dispute.vision) == (WHOLE, code, vision)
    assert f"runs: {code:g} m/s" in dispute.measured and dispute.seen == WHOLE
    assert (dispute.start_s, dispute.end_s, dispute.margin) == (1.0, 2.0, 0.25)
    assert not dispute.resolved and dispute.asked_again is None


def test_a_criterion_in_dispute_caps_the_score_at_what_the_criteria_add_up_to():
    # 0.7 * 1.0 + 0.3 * 0.9 = 0.97 for the whole, but (1.0 + 0.2) / 2 with the disputed one
    fused = fuse(measured(runs=1.0, lands=1.0), watched(0.9, runs=1.0, lands=0.2))
    assert fused.score == pytest.approx(0.6)
    assert [each.criterion for each in fused.disagreements] == ["lands"]
    assert [each.counted for each in fused.leaves] == [1.0, 0.2]
    assert [each.passed for each in fused.leaves] == [True, False]
    assert fused.tags == ("not_lands",)


def test_a_guard_that_vision_doubts_lowers_the_whole_score():
    fused = fuse(measured(runs=1.0, upright=1.0), watched(0.8, runs=0.9, upright=0.1))
    assert fused.score == pytest.approx(0.1)


def test_what_lowers_the_whole_is_not_counted_again_by_its_criteria():
    fused = fuse(measured(runs=1.0, upright=1.0), watched(0.3, runs=0.3, upright=0.3))
    assert fused.score == pytest.approx(0.3), "not 0.3 times 0.3"
    assert len(fused.disagreements) == 3


def test_vision_does_not_raise_a_criterion_in_dispute():
    code = measured(runs=1.0, lands=0.4)
    fused = fuse(code, watched(0.9, runs=1.0, lands=1.0))
    assert fused.score == pytest.approx(0.7) == code.score
    assert fused.leaves == code.leaves


def test_titles_match_whatever_their_case_and_with_the_tolerance_of_near():
    leaves = [score_near("Turns once", 3.0, 1.0, 0.1), score("runs", 1.0, zero=0.0, goal=1.0)]
    fused = fuse(judged(leaves, 0.5), watched(0.5, **{"turns once": 0.9, "RUNS": 0.1}))
    assert [each.criterion for each in fused.disagreements] == ["turns once", "RUNS"]


def test_what_either_did_not_see_or_measure_is_not_a_disagreement():
    code = measured(runs=1.0, lands=float("nan"))
    fused = fuse(code, watched(0.5, runs=None, lands=1.0, smooth=0.0))
    assert fused.disagreements == ()


def test_a_vision_judge_that_contradicts_itself_is_believed_less():
    code = measured(runs=1.0)
    assert fuse(code, watched(0.5)).score == pytest.approx(0.5)
    unsure = fuse(code, watched(0.5, spread=0.6))
    assert unsure.disagreements == () and unsure.score == pytest.approx(0.85)
    assert unsure.spread == 0.6


def test_one_unknown_judge_leaves_the_score_to_the_other_and_is_named():
    code, vision = measured(runs=0.9), watched(0.4, tags=("falls",))
    alone = fuse(code, unknown("vision", "the service is down"))
    assert alone.source == "fused" and alone.score == code.score and alone.leaves == code.leaves
    assert alone.reason == "code alone; vision is unknown: the service is down"
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


def test_a_second_look_that_still_disagrees_or_cannot_see_leaves_the_lower_score():
    code, vision = measured(runs=1.0), watched(0.3, runs=0.2)
    disputes = fuse(code, vision).disagreements
    firm = resolve(code, vision, watched(0.2, runs=0.1), disputes)
    assert firm.score == pytest.approx(0.2)
    assert [each.resolved for each in firm.disagreements] == [False, False]
    blind = resolve(code, vision, unknown("vision", "too dark"), disputes)
    assert blind.score == fuse(code, vision).score
    assert [each.asked_again for each in blind.disagreements] == [None, None]


def test_a_second_look_can_open_a_new_dispute():
    code, vision = measured(runs=1.0, lands=1.0), watched(0.9, runs=0.9, lands=0.2)
    disputes = fuse(code, vision).disagreements
    settled = resolve(code, vision, watched(0.1, lands=0.9), disputes)
    assert [(each.criterion, each.resolved) for each in settled.disagreements] == [
        ("lands", True),
        (WHOLE, False),
    ]
    assert settled.score == pytest.approx(0.1)


def test_what_nobody_watched_loses_what_the_nearest_watched_episode_lost():
    code = [measured(runs=score) for score in (0.2, 0.3, 0.8, 0.9, 1.0)]
    fused = {0: fuse(code[0], watched(0.2)), 4: fuse(code[4], watched(0.1))}
    every = extend(code, fused)
    assert [each.score for each in every] == pytest.approx([0.2, 0.3, 0.0, 0.0, 0.1])
    assert every[1] is code[1] and every[4] is fused[4]
    assert "lowered by 0.90" in (every[3].reason or "") and every[3].by_judge["code"] == 0.9
    summed = together(every)
    assert summed.score == pytest.approx(0.12)


def test_equally_near_episodes_are_averaged_and_nothing_is_gained():
    code = [measured(runs=0.8)] * 3
    fused = {0: fuse(code[0], watched(0.2)), 2: fuse(code[2], watched(0.8))}
    assert extend(code, fused)[1].score == pytest.approx(0.5)
    better = {0: fuse(code[0], watched(1.0))}
    assert extend(code, better)[1] is code[1]
    assert extend(code, {}) == code
    blind = [unknown("code", "broken"), code[1]]
    assert extend(blind, {1: fuse(code[1], watched(0.0))})[0].score is None


def test_a_fused_verdict_survives_the_disk():
    fused = fuse(measured(runs=1.0), watched(0.2, runs=0.1, spread=0.1))
    assert Verdict.model_validate_json(fused.model_dump_json()) == fused


@pytest.mark.parametrize("example", EXAMPLES, ids=" ".join)
def test_the_examples_of_the_documentation_come_out_as_written(example):
    code, vision, spread, fused = map(float, example)
    made = fuse(measured(runs=code), watched(vision, spread=spread))
    assert made.score == pytest.approx(fused)


def test_the_documentation_states_weights_and_margin():
    page = PAGE.read_text()
    assert len(EXAMPLES) == 4
    assert f"{CODE_WEIGHT:g} code + {1 - CODE_WEIGHT:.1f} vision" in page
    assert f"**margin** is {MARGIN:g}" in page
