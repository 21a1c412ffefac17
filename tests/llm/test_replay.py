import pytest

from telic.errors import UsageError
from telic.llm import Fault, RawReply, Replay, ReplyRecorder, Scripted, choose

from .conftest import GOOD, question

PAID = RawReply(text=GOOD.model_dump_json(), price_usd=0.5)


def record(models, folder, replies=(PAID,), name="acme:large"):
    return models(ReplyRecorder(Scripted(list(replies), name=name), folder)).ask(question())


def test_a_recording_answers_like_the_model_and_costs_nothing(models, tmp_path, monkeypatch):
    record(models, tmp_path / "tape")
    fresh = models(Replay(tmp_path / "tape"))
    fresh.replies.folder = tmp_path / "another session"
    reply = fresh.ask(question())
    assert reply.answer == GOOD and reply.model == "acme:large"
    assert reply.price_usd == 0.0 and not reply.cached


def test_a_repair_is_recorded_too(models, tmp_path):
    record(models, tmp_path / "tape", ["{}", PAID])
    fresh = models(Replay(tmp_path / "tape"))
    fresh.replies.folder = tmp_path / "another session"
    assert fresh.ask(question()).attempts == 2


def test_the_replies_of_a_session_are_a_recording(models, tmp_path):
    models(Scripted([PAID])).ask(question())
    assert choose(f"replay:{tmp_path / 'replies'}").name == "scripted"


def test_a_missing_reply_names_the_role_and_the_key(models, tmp_path):
    record(models, tmp_path / "tape")
    changed = question("Changed?", role="reviewer")
    key = changed.key("acme:large")
    with pytest.raises(UsageError, match=f"role reviewer with the key {key}.*holds 0"):
        models(Replay(tmp_path / "tape")).ask(changed)


def test_an_empty_or_mixed_recording_is_explained(models, tmp_path):
    with pytest.raises(UsageError, match="no recorded replies"):
        Replay(tmp_path / "tape")
    record(models, tmp_path / "tape")
    record(models, tmp_path / "tape", name="acme:small")
    with pytest.raises(UsageError, match="acme:large, acme:small"):
        Replay(tmp_path / "tape")
    assert Replay(tmp_path / "tape", "acme:small").name == "acme:small"


def test_an_outage_is_not_recorded(models, tmp_path):
    record(models, tmp_path / "tape", [Fault(kind="rate_limited"), PAID])
    assert len(list((tmp_path / "tape").iterdir())) == 1
