"""A session that follows a reference motion, from the words to a policy that proves it."""

import pytest

from telic.session.loop import run_session
from tests.event_list import EventList


@pytest.mark.long
def test_a_biped_walks_after_a_motion_that_was_named_before_training(tmp_path):
    received = EventList()
    session = run_session(
        "walk forward",
        env="planar-biped",
        motion="walk",
        seeds=(1,),
        iterations=1,
        robustness=False,
        start_seed=0,
        runs_dir=tmp_path,
        on_event=received,
    )
    names = [event["event"] for event in received]
    asked = received[names.index("session.asked")]
    assert names.index("session.asked") < names.index("train.progress")
    assert any("it follows the motion walk" in doubt for doubt in asked["doubts"])
    assert any(each["title"] == "moves as in the motion walk" for each in asked["criteria"])
    assert session.passed and session.summary.score > 0.8
