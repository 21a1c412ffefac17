"""The robustness card is computed once per pass, reported everywhere, and never blocks."""

import pytest

from telic.authors.request import SessionConfig
from telic.errors import WorkerDied
from telic.judges.recorder import RecordedFile, Recordings
from telic.judges.verdict import Verdict, unknown
from telic.session import _judgment as judgment
from telic.session import robustness
from telic.session.records import SessionSummary
from telic.session.report import policy_proof
from telic.session.robustness import (
    CONDITIONS,
    EPISODES,
    read_card,
    robustness_card,
)
from telic.storage.files import read_record, write_text
from telic.training.export.bundle import PolicyProof
from tests.event_list import EventList
from tests.session.test_labels import passed

LATE = len(CONDITIONS) - 1


@pytest.fixture
def session(tmp_path):
    folder = passed(tmp_path)
    member = folder.iteration(1).run.member("reward", 1)
    write_text(member.reward_code, "class R: pass\n")
    return folder


@pytest.fixture
def recorded(monkeypatch):
    """Episodes that pass, but for those with late actions; returns the orders that were played."""
    orders = []

    def record_each(asked, folder):
        orders.extend(asked.values())
        files = {
            name: [RecordedFile(folder / x, "") for x in each.paths] for name, each in asked.items()
        }
        return Recordings(files, {})

    def judge(source, paths, folder, where):
        scores = [0.1 if f"/{LATE}/" in str(path) else 0.9 for path in paths]
        verdicts = [Verdict(source="code", score=score) for score in scores]
        return [unknown("code", "it broke"), *verdicts[1:]]

    monkeypatch.setattr(robustness, "record_each", record_each)
    monkeypatch.setattr(judgment, "judge_files", judge)
    return orders


def card_of(folder, reported=None, **changes):
    config = read_record(folder.config, SessionConfig).replace(**changes)
    summary = read_record(folder.summary, SessionSummary)
    return robustness_card(folder, config, summary, EventList() if reported is None else reported)


def test_a_policy_that_passed_is_judged_under_every_condition_once(session, recorded):
    card = card_of(session)
    assert [row.condition for row in card.rows] == list(CONDITIONS)
    assert [row.passing for row in card.rows] == [15, *[16] * (LATE - 1), 0]
    assert card.rows[0].score == pytest.approx(0.9), "what is unknown lowers no mean"
    assert card.rows[0].reason == "it broke" and card.rows[1].reason is None
    assert len({order.seed for order in recorded}) == 1, "all begin where the first begins"
    assert all(len(order.paths) == EPISODES for order in recorded)
    assert not (session.path / "robustness").exists(), "the episodes are evidence of no claim"
    played = len(recorded)
    assert card_of(session) == card == read_card(session) and len(recorded) == played


@pytest.mark.parametrize("error", [WorkerDied("it died"), OSError("the disk is full")])
def test_failure_is_reported_without_failing_the_session(session, recorded, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(robustness, "record_each", fail)
    reported = EventList()
    assert card_of(session, reported) is None and not session.robustness.exists()
    assert "no robustness card" in reported[0]["message"]


def test_an_environment_with_its_own_physics_has_what_it_can(session, recorded, tmp_path):
    card = card_of(session, env="CartPole-v1")
    tried = {row.condition for row in card.rows if row.passing is not None}
    assert tried == {"as trained", "sensor noise", "one-step action delay"}
    others = [row for row in card.rows if row.condition not in tried]
    assert len(others) == 5 and all("not possible" in row.reason for row in others)


def test_an_exported_policy_carries_what_was_asked_and_proven(session, recorded):
    card_of(session)
    proof = policy_proof(session)
    assert isinstance(proof, PolicyProof) and proof.title == "run forward"
    table = str(proof.sections)
    for words in ("run forward", "passed", "Robustness", "SHA-256", "judge_fn.py"):
        assert words in table
    assert proof.files[session.judge][0] == "judge_fn.py"
