"""Small parts that the tests of models share."""

import pytest
from pydantic import Field

from telic.core.config import Record
from telic.llm import CallLimits, Models, Request
from telic.llm.keys import KEY_NAMES
from tests.event_list import EventList


class Plan(Record):
    """The answer that these tests ask for."""

    title: str
    weights: dict[str, float] = Field(default_factory=dict)


GOOD = Plan(title="run", weights={"speed": 1.0})
FAST = CallLimits(deadline_s=600, attempt_s=300, attempts=3, first_wait_s=0.01, longest_wait_s=0.02)


def question(prompt="How?", **changes):
    return Request(role=changes.pop("role", "elicitor"), prompt=prompt, answer=Plan, **changes)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for names in KEY_NAMES.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def events():
    return EventList()


@pytest.fixture
def models(tmp_path, events):
    def build(provider, **options):
        options = {"limits": FAST, "on_event": events} | options
        return Models(provider, tmp_path, **options)

    return build
