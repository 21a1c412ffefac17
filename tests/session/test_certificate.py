"""No certificate, no pass: what was tried, what judged and what trained must be the same texts."""

import shutil
from types import SimpleNamespace

import pytest

from telic.authors.candidate import RewardCandidate, SessionIteration, reward_text
from telic.judges.criteria import Composition
from telic.judges.trial import Trial, text_hash
from telic.session import certificate
from telic.session.certificate import certify
from telic.session.control import SessionControl, SessionWork
from telic.session.loop import _brief, run
from telic.session.records import SessionConfig
from telic.storage.files import read_json, read_record, write_json
from telic.storage.layout import SessionFolder
from tests.session.quick import at_home


@pytest.fixture(scope="module")
def proven(tmp_path_factory):
    """A session that passes after a moment: who has learned nothing stands still."""
    with at_home():
        return run(
            "stand still",
            env="HalfCheetah-v5",
            runs_dir=tmp_path_factory.mktemp("runs"),
            steps=256,
            episodes=4,
            iterations=1,
            robustness=False,
            first_rewards=1,
        )


class Copy:
    """A copy of that session to tamper with."""

    def __init__(self, path):
        self.folder = SessionFolder(path)
        self.files = self.folder.iteration(1)
        config = read_record(self.folder.config, SessionConfig)
        account = SimpleNamespace()
        control = SessionControl(self.folder, lambda event: None, lambda: False, account)
        brief = _brief(config, self.folder, control, lambda event: None)
        self.work = SessionWork(config, brief, None, control)

    def change(self, path, **changes):
        write_json(path, {**read_json(path), **changes})

    def doubts(self):
        written = read_record(self.folder.author, Composition)
        iteration = read_record(self.files.judgment, SessionIteration)
        with at_home():
            return certify(self.work, written, iteration).doubts


@pytest.fixture
def copy(proven, tmp_path):
    shutil.copytree(proven.path, tmp_path / proven.path.name)
    return Copy(tmp_path / proven.path.name)


def test_a_pass_carries_the_hashes_of_the_judge_and_the_reward_that_were_tried(proven):
    assert proven.passed, proven.summary.reasons
    folder = SessionFolder(proven.path)
    trial, judged = read_record(folder.trial, Trial), read_json(folder.iteration(1).judgment)
    sealed = read_json(folder.certificate)
    judge = text_hash(folder.judge.read_text())
    assert trial.judge_hash == judged["judge_hash"] == sealed["judge_hash"] == judge
    assert sealed["reward_hashes"] == judged["reward_hashes"]
    assert set(judged["reward_hashes"]) == {each["member"] for each in judged["members"]}
    assert sealed["good"] == trial.good and not sealed["doubts"]
    assert all(each["total"] == 18 for each in sealed["mutants"])
    assert any(each["caught"] for each in sealed["mutants"])


def test_what_nobody_touched_is_believed_again(copy):
    assert copy.doubts() == ()


def edit(path, old="", new="\n# changed\n"):
    path.write_text(path.read_text().replace(old, new) if old else path.read_text() + new)


def judge_in_author(copy):
    copy.change(copy.folder.author, judge=read_json(copy.folder.author)["judge"] + "\n# kinder\n")


def judge_on_disk(copy):
    edit(copy.folder.judge)


def judge_while_judging(copy):
    copy.change(copy.files.judgment, judge_hash=None)


def another_judge_judged(copy):
    copy.change(copy.files.judgment, judge_hash=text_hash("another"))


def reward_of_a_policy(copy):
    for member in copy.files.run.members():
        edit(member.reward_code)


def reward_on_record(copy):
    rewards = dict.fromkeys(read_json(copy.files.judgment)["reward_hashes"], text_hash("other"))
    copy.change(copy.files.judgment, reward_hashes=rewards)


def reward_in_candidate(copy):
    copy.change(copy.files.candidate, reward=read_json(copy.files.candidate)["reward"] + "\n#\n")


def no_trial(copy):
    write_json(copy.folder.trial, Trial(examples=(), judge_problems=("the worker died",)))


def a_problem(copy):
    copy.change(copy.folder.trial, judge_problems=["The judge passes everything."])


def another_stick(copy):
    found = read_json(copy.files.judgment)
    for member in found["members"]:
        for verdict in member["judgement"]["verdicts"]:
            verdict["leaves"][0]["goal"] *= 0.5
    write_json(copy.files.judgment, found)


TAMPERED = {
    judge_in_author: "the judge was changed after its trial",
    judge_on_disk: "the judge was changed after its trial",
    judge_while_judging: "which judge judged iteration 1 is not on record",
    another_judge_judged: "the judge was changed after its trial",
    reward_of_a_policy: "was changed after it was proposed",
    reward_on_record: "was changed after it was proposed",
    reward_in_candidate: "was changed after it was proposed",
    no_trial: "could not be tried on examples: the worker died",
    a_problem: "The judge passes everything.",
    another_stick: "with another stick",
}


@pytest.mark.parametrize(
    ("tamper", "why"), TAMPERED.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_whatever_was_changed_after_the_trial_proves_nothing(copy, monkeypatch, tamper, why):
    monkeypatch.setattr(certificate, "_mutants", lambda *_: ((), []))
    tamper(copy)
    doubts = copy.doubts()
    assert any(why in doubt for doubt in doubts), doubts


@pytest.mark.parametrize("is_variant", [False, True], ids=["candidate", "variant"])
def test_a_revised_reward_is_tried_with_the_same_judge(copy, is_variant):
    """Pay for shaking, as if that had been proposed and trained: the trial says so."""
    candidate = read_record(copy.files.candidate, RewardCandidate)
    start = candidate.reward.index("        return ")
    bad = candidate.reward[:start] + "        terms = {'a': action.square().mean(-1)}\n"
    bad += "        return sum(terms.values()), terms\n"
    changes = {"variants": [{"reward": bad}]} if is_variant else {"reward": bad}
    copy.change(copy.files.candidate, **{"variants": [{"weights": {}}], **changes})
    text = reward_text(read_record(copy.files.candidate, RewardCandidate), 0)
    for member in copy.files.run.members():
        member.reward_code.write_text(text)
    rewards = dict.fromkeys(read_json(copy.files.judgment)["reward_hashes"], text_hash(text))
    copy.change(copy.files.judgment, reward_hashes=rewards)
    assert any("The reward pays" in doubt for doubt in copy.doubts())
    assert read_record(copy.files.certificate, Trial).reward_hash == text_hash(text)


def test_a_trial_of_an_earlier_version_is_made_again(copy):
    trial = read_json(copy.folder.trial)
    old = {name: trial[name] for name in ("schema_version", "examples")}
    write_json(copy.folder.trial, old)
    assert copy.doubts() == ()
    assert read_record(copy.folder.trial, Trial).judge_hash is not None


@pytest.mark.parametrize(
    ("ours", "theirs", "may"),
    [
        ((0.9, 0.0, 0.0), (0.9, 0.0, 0.0), True),  # it began where it should get to
        ((0.9, 0.9, 0.9), (0.9, 0.9, 0.9), True),
        ((0.9, 0.9, 0.0), (0.9, 0.0, 0.0), False),
        ((0.0, 0.9, 0.0), (0.9, 0.0, 0.9), False),
    ],
)
def test_a_frozen_robot_passes_only_where_the_composer_passes_the_same_one(
    monkeypatch, ours, theirs, may
):
    written, reference = object(), object()
    scores = {id(written): ours, id(reference): theirs}

    def judged(work, iteration, by, episodes):
        return [SimpleNamespace(score=score) for score in scores[id(by)]]

    monkeypatch.setattr(certificate, "_judged", judged)
    monkeypatch.setattr(certificate, "mutants_of", lambda *_: {certificate.FROZEN: None})
    settings = SimpleNamespace(threshold=0.8)
    work = SimpleNamespace(config=settings, brief=SimpleNamespace(spec=None))
    episodes = [SimpleNamespace(trajectory=None)] * 3
    trial = SimpleNamespace(fine=())
    assert certificate._may_freeze(work, written, None, trial, episodes, reference) is may
