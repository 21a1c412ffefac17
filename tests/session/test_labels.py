"""Labels are stored, reported and exported; a veto revokes a pass permanently."""

import json
import re
import shutil
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from telic.authors.candidate import MemberScore
from telic.cli.main import app
from telic.errors import UsageError
from telic.judges.verdict import Verdict, together
from telic.session._judgment import by_labels
from telic.session._report_sections import people_section
from telic.session.labels import (
    EpisodeLabel,
    Veto,
    add_label,
    add_veto,
    calibration_of,
    effective_labels,
    vetoed_before,
)
from telic.session.records import SessionSummary, session_state
from telic.session.report import _read
from telic.storage.files import read_record, write_text
from telic.storage.keys import sign_folder
from telic.storage.layout import SessionFolder
from telic.verbs.labels import veto
from tests.session.sessions import JUDGE, add_iteration, end, make_session, summary_of


def member(name, *scores):
    verdicts = [
        Verdict(
            source="fused",
            score=score,
            recording=f"{name}-{number}",
            by_judge={"code": score, "vision": 0.5},
        )
        for number, score in enumerate(scores)
    ]
    seed = int(name[-1])
    return MemberScore(member=name, variant=0, seed=seed, step=1, judgment=together(verdicts))


@pytest.fixture
def session(tmp_path):
    """A session that passed, judged on four episodes of two policies."""
    return passed(tmp_path)


def passed(runs, name="session_20260102_030405_abcd1234"):
    folder = make_session(runs, name)
    sign_folder(folder.path)
    members = member("reward_seed_1", 0.2, 0.9, 0.95, 1.0), member("reward_seed_2", *[0.4] * 4)
    add_iteration(folder, 1, score=0.6, passed=True, members=members)
    end(folder, summary_of(folder, score=0.8, low=0.8))
    return folder


def test_label_keeps_the_scores_of_the_judges_and_their_disagreement(session):
    no = add_label(session, False, why=" it slides ", author="ada")
    assert (no.iteration, no.member, no.episode, no.score) == (1, "reward_seed_1", 3, 0.95)
    assert no.disagrees and no.why == "it slides" and no.recording == "reward_seed_1-2"
    assert (no.code, no.vision) == (0.95, 0.5)
    yes = add_label(session, True, member="reward_seed_2", episode="2")
    assert yes.disagrees and yes.recording == "reward_seed_2-1"
    assert not add_label(session, False, episode="p10").disagrees
    assert [each.id for each in EpisodeLabel.read(session.labels)][:2] == [no.id, yes.id]


def test_later_label_overrides_and_both_are_kept(session):
    add_label(session, True, author="ada")
    add_label(session, False, author="ada")
    add_label(session, True, author="bob")
    assert len(EpisodeLabel.read(session.labels)) == 3
    in_force = effective_labels(EpisodeLabel.read(session.labels))
    assert [(each.author, each.is_wanted) for each in in_force] == [
        ("ada", False),
        ("bob", True),
    ]


def test_labels_of_one_judge_count_in_every_session_that_has_it(session, tmp_path):
    for number in "234":
        for author in ("ada", "bob"):
            add_label(session, False, episode=number, author=author)
    other = passed(tmp_path, "session_20260103_030405_abcd1234")
    theirs = SessionFolder(shutil.copytree(session.path, tmp_path / "session_of_another_user"))
    for number in range(20):
        add_label(theirs, True, author=f"friend {number}")
    found = calibration_of(other, 0.8)
    work = SimpleNamespace(folder=other, config=SimpleNamespace(threshold=0.8))
    assert found.labels == 6 and found.shift > 0.2
    refused = by_labels(work, member("reward_seed_1", 1.0, 1.0))
    assert refused.judgment.score < 0.8
    write_text(other.judge, JUDGE + "# another\n")
    assert calibration_of(other, 0.8).labels == 0


def test_an_agents_label_is_kept_and_changes_no_score(session):
    for number in range(8):
        add_label(session, False, author=f"agent{number}", by="agent")
    assert len(EpisodeLabel.read(session.labels)) == 8 and calibration_of(session, 0.8).labels == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"iteration": 7}, "Available: 1"),
        ({"member": "reward_seed_9"}, "reward_seed_1"),
        ({"episode": "5"}, "1 to 4"),
        ({"episode": "0"}, "1 to 4"),
        ({"episode": "best"}, "p10, median and p90"),
    ],
)
def test_an_episode_that_is_not_there_cannot_be_labeled(session, options, says):
    with pytest.raises(UsageError) as refused:
        add_label(session, True, **options)
    assert says in str(refused.value) and not session.labels.exists()


def test_a_veto_takes_the_pass_away_on_record_and_for_good(session, monkeypatch):
    monkeypatch.setattr("telic.session.report.rewrite_report", lambda folder, redraws: None)
    made = veto(runs_dir=session.path.parent, why="it slides", author="ada").data
    assert session_state(session) == "unproven" and made["outcome"] == "passed"
    summary = read_record(session.summary, SessionSummary)
    assert summary.low is None
    assert (
        summary.reasons[0].startswith("vetoed by ada on 20") and "it slides" in summary.reasons[0]
    )
    again = add_veto(session, "and it limps", "bob")
    assert [each.id for each in Veto.read(session.vetoes)] == [made["id"], again.id]
    assert len(read_record(session.summary, SessionSummary).reasons) == 2


def test_asking_for_the_same_again_does_not_undo_a_veto(session, tmp_path):
    add_veto(session, "it slides", "ada")
    other = passed(tmp_path, "session_20260103_030405_abcd1234")
    (why,) = vetoed_before(other)
    assert session.name in why and "vetoed by ada" in why and "it slides" in why
    write_text(other.judge, JUDGE + "# another\n")
    assert vetoed_before(other) == ()
    add_veto(other, "so they say", "helper", by="agent")
    assert vetoed_before(other) == ()


@pytest.mark.parametrize("outcome", ["not_passed", "stopped", None])
def test_what_did_not_pass_cannot_be_vetoed(session, outcome):
    if outcome is None:
        session.summary.unlink()
    else:
        end(
            session,
            read_record(session.summary, SessionSummary).model_copy(update={"outcome": outcome}),
        )
    with pytest.raises(UsageError, match=r"telic (note|label)"):
        add_veto(session, "no")
    assert not session.vetoes.exists()


def telic(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_a_label_is_given_and_listed_at_a_terminal(session):
    runs = ("--runs-dir", session.path.parent)
    printed = telic("label", "no", "--why", "it slides", *runs)
    assert "disagrees" in printed and "it slides" in printed and "telic veto" in printed
    telic("label", "yes", "--session", session.name, "--episode", "1", *runs)
    assert "it slides" in telic("label", *runs)
    assert json.loads(telic("list", *runs, "--json"))[0]["disputed"] == 2
    assert re.search(r"disputed: +2", telic("show", session.name, *runs))
    telic("label", "maybe", *runs, code=2)
    telic("veto", session.name, *runs, code=2)


def test_the_better_of_two_episodes_is_stored_with_both_scores(session):
    def label(*words):
        given = CliRunner().invoke(
            app, ["label", *words, "--runs-dir", str(session.path.parent), "--json"]
        )
        return json.loads(given.stdout) if given.exit_code == 0 else given.output

    made = label("4", "reward_seed_2:1", "--why", "smoother")
    assert (made["better"], made["worse"]) == ("reward_seed_1:4", "reward_seed_2:1")
    assert (made["score_better"], made["score_worse"], made["agrees"]) == (1.0, 0.4, True)
    assert label("1", "2")["agrees"] is False
    assert label("reward_seed_2:1", "reward_seed_2:2")["agrees"] is None  # equal scores
    assert [each["agrees"] for each in label()["preferences"]] == [True, False, None]
    assert "same episode" in label("4", "reward_seed_1:4")
    assert "neither yes nor no" in label("maybe")


def test_the_report_says_what_people_say(session):
    add_label(session, False, why="it slides", author="ada")
    add_veto(session, "a look-alike", "bob")
    printed = str(people_section(_read(session)))
    for words in (
        "vetoed by bob",
        "it slides",
        "differ",
        "scores are only adjusted with at least 6 labels",
    ):
        assert words in printed
