import pytest

from telic.errors import UsageError
from telic.llm import Models, RawReply
from telic.testing.models import Replay, Scripted

from .conftest import FAST, GOOD, question

PAID = RawReply(text=GOOD.model_dump_json(), price_usd=0.5)


def record(folder, replies=(PAID,), name="acme:large"):
    return Models(Scripted(list(replies), name=name), folder.parent, limits=FAST).ask(question())


def test_a_recording_answers_like_the_model_and_costs_nothing(models, tmp_path, monkeypatch):
    record(tmp_path / "tape" / "replies")
    fresh = models(Replay(tmp_path / "tape" / "replies"))
    reply = fresh.ask(question())
    assert reply.answer == GOOD and reply.model == "acme:large"
    assert reply.price_usd == 0.0 and not reply.cached


def test_a_missing_reply_names_the_role_and_the_key(models, tmp_path):
    record(tmp_path / "tape" / "replies")
    changed = question("Changed?", role="reviewer")
    key = changed.key("acme:large")
    with pytest.raises(UsageError, match=f"role reviewer with the key {key}.*contains 0"):
        models(Replay(tmp_path / "tape" / "replies")).ask(changed)
