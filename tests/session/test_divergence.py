"""A return that rises while the judge's score falls is noticed, whatever the reward's scale."""

import pytest

from telic.session._training import alarms
from telic.storage.files import JsonLines
from telic.storage.layout import IterationFolder, MemberFolder
from telic.storage.scalars import ScalarLog
from tests.session.test_report import iteration, score


def evaluate(path, *rows):
    log = ScalarLog(MemberFolder(path).scalars)
    for step, mean, half in rows:
        row = {"global_step": step, "mean_return": mean, "interval": [mean - half, mean + half]}
        log.append({"type": "eval", **row})
    log.close()


def judged(tmp_path, then, end, *, scale=1.0, half=10.0):
    """Two moments of a policy as (return, score): in a training at step 100, and at its end."""
    files = IterationFolder(tmp_path)
    rows = [(100, scale * then[0], scale * half), (256, scale * end[0], scale * half)]
    evaluate(files.run.path / "reward_seed_1", *rows)
    with JsonLines(files.checkpoints) as log:
        log.append({"step": 100, "scores": {"reward_seed_1": then[1]}})
    return alarms(files, iteration(1, score(end[1])))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_a_reward_that_pays_for_something_else_is_named(tmp_path, scale):
    (printed,) = judged(tmp_path, (100, 0.7), (300, 0.3), scale=scale)
    assert "from step 100 to the end" in printed and "score fell from 0.70 to 0.30" in printed


@pytest.mark.parametrize(
    ("then", "end"),
    [((100, 0.3), (300, 0.7)), ((100, 0.7), (110, 0.3)), ((100, 0.7), (300, 0.6))],
    ids=["both rise", "the return may not have risen", "the score hardly fell"],
)
def test_chance_and_expected_changes_raise_no_alarm(tmp_path, then, end):
    assert judged(tmp_path, then, end) == ()


def test_vision_deduction_is_not_a_drop_of_the_code_score(tmp_path):
    """While a policy learns only code judges it; compared is what code says at both moments."""
    files = IterationFolder(tmp_path)
    evaluate(files.run.path / "reward_seed_1", (100, 100.0, 1.0), (256, 300.0, 1.0))
    with JsonLines(files.checkpoints) as log:
        log.append({"step": 100, "scores": {"reward_seed_1": 0.9}})
    seen = score(0.4)
    by_code = [
        verdict.model_copy(update={"source": "fused", "by_judge": {"code": 0.95, "vision": 0.1}})
        for verdict in seen.judgment.verdicts
    ]
    judgment = seen.judgment.model_copy(update={"verdicts": tuple(by_code)})
    looked_at = seen.model_copy(update={"judgment": judgment})
    assert alarms(files, iteration(1, looked_at)) == ()
    (printed,) = alarms(files, iteration(1, score(0.4)))
    assert "score fell from 0.90 to 0.40" in printed
