"""The vision judge's forms: what is valid, and what several answers amount to."""

import pytest
from pydantic import ValidationError

from telic.judges.verdict import Verdict, unknown
from telic.judges.vision import (
    seen_verdict,
    sighting_form,
    worth_watching,
)

CRITERIA = ["runs forward", "stays upright"]


def sighting(tenths, evidence="seen", start=1.0, end=2.0, **more):
    return {"evidence": evidence, "start_s": start, "end_s": end, "tenths": tenths, **more}


def answer(runs, upright, whole, **more):
    form = sighting_form(CRITERIA)
    parts = {"criterion_1": sighting(runs, f"runs {runs}"), "criterion_2": sighting(upright)}
    return form.model_validate({**parts, "whole": sighting(whole, f"whole {whole}", **more)})


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (sighting(11), "less than or equal to 10"),
        (sighting(0.5), "valid integer"),
        (sighting(5, start=2.0, end=1.0), "before start_s"),
        (sighting(5, end=None), "both be given, or neither"),
        (sighting(5, evidence=""), "at least 1 character"),
        (sighting(5, tags=["Clumsy, a bit"]), "match pattern"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_valid(part, complaint):
    form = sighting_form([])
    with pytest.raises(ValidationError, match=complaint):
        form.model_validate({"whole": part})


def test_repeated_answers_give_the_median_its_evidence_and_the_spread():
    forms = [answer(2, None, 3), answer(9, 4, 9, tags=["stops"]), answer(6, 8, 5, tags=["falls"])]
    verdict = seen_verdict(forms, CRITERIA)
    assert verdict.score == 0.5 and verdict.spread == pytest.approx(0.6)
    assert verdict.seen[0].score == 0.6 and verdict.seen[0].answers == (0.2, 0.9, 0.6)
    assert verdict.seen[0].evidence == "runs 6" and verdict.tags == ("falls",)
    assert verdict.seen[1].score == 0.4, "the lower of two, the third could not see it"
    assert verdict.seen[1].answers == (None, 0.4, 0.8)


def test_what_cannot_be_seen_is_unknown_never_zero():
    verdict = seen_verdict([answer(5, 5, None)], CRITERIA)
    assert verdict.score is None and verdict.reason == "not visible: whole None"
    assert verdict.seen[0].score == 0.5
    partly = seen_verdict([answer(None, 0, 4)], CRITERIA)
    assert [each.score for each in partly.seen] == [None, 0.0, 0.4]


def scored(*scores):
    return [
        unknown("code", "?") if each is None else Verdict(source="code", score=each)
        for each in scores
    ]


def test_the_episodes_at_the_percentiles_of_the_code_score_are_watched():
    assert worth_watching(scored(*(each / 10 for each in range(10, -1, -1)))) == [9, 5, 1]
    assert worth_watching(scored(0.9, None, 0.1)) == [2, 0]
    assert worth_watching(scored(0.5)) == [0] and worth_watching([]) == []
