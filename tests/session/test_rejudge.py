"""A judge that is contradicted again and again is revised, and old episodes are scored anew."""

import hashlib
from types import SimpleNamespace

import pytest

from telic.authors.candidate import MemberScore, SessionIteration
from telic.authors.request import SessionConfig
from telic.judges.criteria import Composition, leaf
from telic.judges.validation import Trial
from telic.judges.verdict import judged, together
from telic.session import rejudge
from telic.session.evidence import SessionJournal
from telic.session.rejudge import JudgeRevision, reconsidered
from telic.storage.files import read_record
from tests.session.sessions import JUDGE, add_iteration, make_session

BETTER = JUDGE + "# another\n"
DOUBT = "the pictures disagree"


def verdict(score, recording=None):
    return judged([leaf("x", score, zero=0.0, goal=1.0)], score).model_copy(
        update={"recording": recording}
    )


class Author:
    """Writes one judge, and counts how often it was asked."""

    def __init__(self, text=BETTER):
        self.text, self.asked = text, []

    def revise_judge(self, written, problems):
        self.asked.append((written.judge, problems))
        return self.text


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Return how to make two judged iterations, whose new judge gives every episode 0.3."""
    monkeypatch.setattr(rejudge, "try_written", lambda brief, written: Trial(examples=()))
    monkeypatch.setattr(
        rejudge, "judge_files", lambda judge, paths, *_: [verdict(0.3) for _ in paths]
    )
    folder = make_session(tmp_path, seeds=(1,))

    def make(author, doubts=(DOUBT, DOUBT), passed=False):
        for number, doubt in enumerate(doubts, start=1):
            files = folder.iteration(number)
            verdicts = []
            for index in range(30):
                path = files.episode("reward_seed_1", index)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes([index]))
                verdicts.append(verdict(0.9, hashlib.sha256(path.read_bytes()).hexdigest()))
            judgement = together(verdicts, threshold=0.8)
            member = MemberScore(
                member="reward_seed_1", variant=0, seed=1, step=256, judgement=judgement
            )
            add_iteration(
                folder, number, members=(member,), judge_doubted=doubt, passed=passed, score=0.9
            )
        told = []
        work = SimpleNamespace(
            folder=folder,
            config=read_record(folder.config, SessionConfig),
            brief=None,
            author=author,
            emit=told.append,
            records=SessionJournal(folder, "run forward", "HalfCheetah-v5", ""),
        )
        history = [
            read_record(folder.iteration(number).judgment, SessionIteration)
            for number in range(1, len(doubts) + 1)
        ]
        return work, history

    return make


def again(work, history):
    written = read_record(work.folder.author, Composition)
    found = reconsidered(work, len(history) + 1, written, history)
    return SimpleNamespace(written=found[0], history=found[1])


def test_a_judge_that_is_contradicted_twice_is_replaced_and_old_episodes_are_scored_anew(session):
    author = Author()
    work, history = session(author, passed=True)
    found = again(work, history)
    assert found.written.judge == BETTER == work.folder.judge.read_text()
    assert [each.score for each in found.history] == pytest.approx([0.3, 0.3])
    assert not any(each.passed or each.judge_doubted for each in found.history)
    assert author.asked == [(JUDGE, (DOUBT,))]
    assert again(work, history) == found and len(author.asked) == 1  # asked once, also on resume


def test_a_changed_recording_is_unknown_to_the_new_judge_too(session):
    work, history = session(Author())
    work.folder.iteration(1).episode("reward_seed_1", 3).write_bytes(b"another")
    (first, _) = again(work, history).history
    assert first.members[0].judgement.unknown == 1


def test_a_pass_is_never_gained_by_another_judge(session, monkeypatch):
    monkeypatch.setattr(
        rejudge, "judge_files", lambda judge, paths, *_: [verdict(1.0) for _ in paths]
    )
    found = again(*session(Author()))
    assert found.history[0].score == 1.0 and not found.history[0].passed


@pytest.mark.parametrize("doubts", [(None, None), (DOUBT, None), (DOUBT,)])
def test_one_doubt_is_not_enough(session, doubts):
    author = Author()
    work, history = session(author, doubts)
    assert again(work, history).history == history and author.asked == []


def test_a_judge_that_does_not_meet_the_trial_is_not_taken(session, monkeypatch):
    bad = Trial(examples=(), judge_problems=("it likes whoever lies down",))
    monkeypatch.setattr(rejudge, "try_written", lambda brief, written: bad)
    work, history = session(Author())
    found = again(work, history)
    assert found.written.judge == JUDGE and found.history == history
    kept = read_record(work.folder.iteration(3).judge_revision, JudgeRevision)
    assert not kept.taken and kept.problems == bad.judge_problems


def test_an_author_that_cannot_write_another_is_not_asked(session):
    work, history = session(SimpleNamespace())
    assert again(work, history).history == history
