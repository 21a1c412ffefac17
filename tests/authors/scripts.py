"""Answers of a model that runs a small session."""

from tests.training.small import SPEED

CRITERIA = {
    "criteria": [{"title": "lasts", "quantity": "seconds", "zero": 0.0, "goal": 1.0, "unit": "s"}],
    "seconds": 2.0,
    "ambiguous": ["how long: 1 s"],
    "demonstration": [{"seconds": 5.0, "forward_mps": 3.0}],
    "fine": [
        "does nothing",
        "ends at once",
        "shakes",
        "pushes",
        "pulls",
        "flails",
        "lies on its back",
        "topples over",
    ],
}
JUDGE = """
from telic import leaf

def judge(episode):
    return [leaf("lasts", episode.seconds, zero=0.0, goal=1.0, unit="s", tag="ends_early")]
"""
STRICT = JUDGE.replace("goal=1.0", "goal=50.0")
REWARD = {"reasoning": "r", "source": SPEED, "steps": 10_000}
REVISION = {
    "diagnosis": "too slow",
    "change": "faster",
    "based_on": 1,
    "weights": [{"speed": 2.0}, {"speed": 4.0}],
    "lessons": [{"text": "speed needs weight"}],
}
SCRIPT = {
    "elicitor": CRITERIA,
    "reward_author": REWARD,
    "judge_author": {"reasoning": "j", "source": JUDGE},
    "reviewer": {"reasoning": "fine"},
    "analyst": {"story": "It ran.", "findings": ["speed matters"]},
}
