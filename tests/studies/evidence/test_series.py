"""Statistics of series against scipy and by hand."""

import math
from itertools import product

import pytest

from telic.errors import TelicError
from telic.studies.evidence._logs import Series, aggregate, step_axis, to_series


def test_aggregates_by_hand():
    # auc: (0.5*(1+2)*1 + 0.5*(2+3)*1 + 0.5*(3+10)*2) / 4 = (1.5+2.5+13)/4 = 4.25 with nan dropped
    one = Series((0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, math.nan, 10.0))
    wanted = {"mean": 4.0, "median": 2.5, "last": 10.0, "iqm": 2.5, "auc": 4.25}
    assert {how: aggregate(one, how) for how in wanted} == pytest.approx(wanted)
    assert {aggregate(Series((0.0,), (math.nan,)), how) for how in wanted} == {None}


def test_a_measure_per_step_never_counts_the_steps():
    # in the order of the reward the last value would be 0.95; it is 0.20
    measured = enumerate([(1.0, 0.5), (9.0, 0.95), (3.0, 0.2)])
    plain = [{"reward/step": x, "success": y, "at": float(at)} for at, (x, y) in measured]
    for group, counter in product(("reward", "eval", "train_reward"), ("step", "time/steps", "at")):
        names = {"reward/step": f"{group}/step", "at": counter}
        rows = [{names.get(key, key): value for key, value in row.items()} for row in plain]
        assert aggregate(to_series(rows)["success"], "last") == 0.2
        assert step_axis(rows) == (None if counter == "at" else counter)


def test_columns_that_disagree_are_not_chosen_between():
    rows = [{"train/step": float(i), "actor/step": 10.0 - i, "success": 0.1 * i} for i in range(5)]
    with pytest.raises(TelicError, match="train/step, actor/step"):
        to_series(rows)
    found = to_series(rows, "train/step")["success"]
    assert aggregate(found, "last") == pytest.approx(0.4)
    with pytest.raises(TelicError, match="column, steps, is not in the log"):
        to_series(rows, "steps")
