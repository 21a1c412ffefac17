"""No certificate, no pass: what was tried, what judged and what trained must be the same texts."""

import random
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from telic.authors.author import MeasurableIntent
from telic.authors.candidate import RewardCandidate, SessionIteration, reward_text
from telic.authors.request import SessionConfig
from telic.errors import Refused
from telic.judges.criteria import Composition
from telic.judges.validation import JudgeValidation, text_hash
from telic.judges.verdict import Verdict, at_quantiles
from telic.session import certificate
from telic.session._judgment import doubts_of_pass
from telic.session.branch import branch_session
from telic.session.certificate import Certifier
from telic.session.control import SessionControl, SessionWork
from telic.session.evidence import SessionJournal
from telic.session.loop import _brief, resume_session, run_session
from telic.storage.files import read_json, read_json_lines, read_record, write_json
from telic.storage.journal import Journal
from telic.storage.keys import config_folder
from telic.storage.layout import SessionFolder
from telic.verbs.artifacts import show
from tests.session.quick import at_home
from tests.session.sessions import bent, leaves


@pytest.fixture(scope="module")
def proven(tmp_path_factory):
    """A session that passes after a moment: who has learned nothing stands still."""
    with at_home():
        return run_session(
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
        self.work = SessionWork(
            brief,
            None,
            control,
            SessionJournal(self.folder, config.intent, config.env, config.terms),
        )

    def change(self, path, **changes):
        write_json(path, {**read_json(path), **changes})

    def doubts(self):
        written = read_record(self.folder.author, Composition)
        iteration = read_record(self.files.judgment, SessionIteration)
        with at_home():
            return Certifier(self.work, written, iteration).certificate().doubts


@pytest.fixture
def copy(proven, tmp_path, monkeypatch):
    shutil.copytree(config_folder(), tmp_path / "config")  # notes of the last line of a journal
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    return Copy(shutil.copytree(proven.path, tmp_path / "runs" / proven.path.name))


def test_a_pass_carries_the_hashes_of_the_judge_and_the_reward_that_were_tried(proven):
    assert proven.passed, proven.summary.reasons
    folder = SessionFolder(proven.path)
    trial = read_record(folder.trial, JudgeValidation)
    judged = read_json(folder.iteration(1).judgment)
    sealed = read_json(folder.certificate)
    judge = text_hash(folder.judge.read_text())
    assert trial.judge_hash == judged["judge_hash"] == sealed["judge_hash"] == judge
    assert sealed["reward_hashes"] == judged["reward_hashes"]
    assert set(judged["reward_hashes"]) == {each["member"] for each in judged["members"]}
    assert sealed["good"] == trial.good and not sealed["doubts"]
    assert all(each["total"] == 3 * 13 for each in sealed["mutants"] if each["total"])
    assert any(each["caught"] for each in sealed["mutants"])


def test_a_finished_session_shows_its_criteria_with_measured_values(proven):
    with at_home():
        page = show(proven.path.name, runs_dir=proven.path.parent)
    still = next(x for x in page["criteria"] if x["criterion"].startswith("stands still"))
    assert float(still["measured"]) >= 0.9 and still["credit"] == "100%"
    assert page["lower_bound"] == proven.summary.low is not None


def test_untouched_session_is_verified_again(copy):
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
    write_json(copy.folder.trial, JudgeValidation(examples=(), judge_problems=("the worker died",)))


def a_problem(copy):
    copy.change(copy.folder.trial, judge_problems=["The judge passes everything."])


def another_stick(copy):
    found = read_json(copy.files.judgment)
    for member in found["members"]:
        for verdict in member["judgment"]["verdicts"]:
            verdict["criteria"][0]["goal"] *= 0.5
    write_json(copy.files.judgment, found)


TAMPERED = {
    judge_in_author: "the judge was changed after its validation",
    judge_on_disk: "the judge was changed after its validation",
    judge_while_judging: "the judge of iteration 1 is not recorded",
    another_judge_judged: "the judge was changed after its validation",
    reward_of_a_policy: "was changed after it was proposed",
    reward_on_record: "was changed after it was proposed",
    reward_in_candidate: "was changed after it was proposed",
    no_trial: "could not be validated: the worker died",
    a_problem: "The judge passes everything.",
    another_stick: "different criteria for the policies",
}


@pytest.mark.parametrize(
    ("tamper", "why"), TAMPERED.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_whatever_was_changed_after_the_trial_proves_nothing(copy, monkeypatch, tamper, why):
    monkeypatch.setattr(Certifier, "_mutants", lambda *_: ((), []))
    tamper(copy)
    doubts = copy.doubts()
    assert any(why in doubt for doubt in doubts), doubts


@pytest.mark.parametrize(
    "is_variant", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["candidate", "variant"]
)
def test_a_revised_reward_is_tried_with_the_same_judge(copy, is_variant):
    """Pay for shaking, as if that had been proposed and trained: the trial says so."""
    bad = (
        "from telic import RewardFunction\n\n\nclass Shake(RewardFunction):\n"
        "    weights = {'shake': 1.0}\n\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        terms = {'shake': self.weights['shake'] * action.square().mean(-1)}\n"
        "        return sum(terms.values()), terms\n"
    )
    changes = {"variants": [{"reward": bad}]} if is_variant else {"reward": bad}
    copy.change(copy.files.candidate, **{"variants": [{"weights": {}}], **changes})
    text = reward_text(read_record(copy.files.candidate, RewardCandidate), 0)
    for member in copy.files.run.members():
        member.reward_code.write_text(text)
    rewards = dict.fromkeys(read_json(copy.files.judgment)["reward_hashes"], text_hash(text))
    copy.change(copy.files.judgment, reward_hashes=rewards)
    assert any("These failure modes earn" in doubt for doubt in copy.doubts())
    assert read_record(copy.files.certificate, JudgeValidation).reward_hash == text_hash(text)


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
    case = Certifier.__new__(Certifier)
    case._written, case._threshold, case._trial = written, 0.8, SimpleNamespace(fine=())
    case._work = SimpleNamespace(brief=SimpleNamespace(spec=None))
    case._scores = lambda by, episodes: scores[id(by)]
    monkeypatch.setattr(certificate, "mutants_of", lambda *_: {certificate.FROZEN: None})
    assert case._may_freeze([SimpleNamespace(trajectory=None)] * 3, reference) is may


@pytest.fixture
def second_reading(tmp_path, monkeypatch):
    """Return a function that reads 16 passing episodes a second time, and the doubts."""

    def read(theirs, stated, given, whole=None):
        judged = [Verdict(source="code", score=0.8 + 0.01 * at) for at in range(16)]
        member = SimpleNamespace(member="one", judgment=SimpleNamespace(verdicts=judged))

        def judge(judge, files, folder, where):
            return [Verdict(source="code", score=theirs[int(file.stem)]) for file in files]

        made = SimpleNamespace(judge="theirs", env_args=stated, covered=(), not_understood=())
        spec = SimpleNamespace(max_episode_steps=None)
        brief = SimpleNamespace(config=SimpleNamespace(intent="run"), spec=spec, reference=None)
        case = Certifier.__new__(Certifier)
        case._work, case._written = SimpleNamespace(brief=brief), SimpleNamespace(judge="ours")
        case._is_own, case._threshold, case._where = False, 0.8, ("", {})
        case._candidate = SimpleNamespace(env_args=given)
        verdict = Verdict(source="code", score=whole)
        monkeypatch.setattr(Certifier, "_as_read", lambda *_: [verdict] * 4)
        case._files = SimpleNamespace(path=tmp_path, episode=lambda _, at: tmp_path / f"{at}.npz")
        for at in range(16):
            (tmp_path / f"{at}.npz").touch()
        monkeypatch.setattr(certificate, "able_reading", lambda *_: (made, ()))
        monkeypatch.setattr(certificate, "judge_files", judge)
        doubts = []
        return case._second_reading(member, doubts)[1], doubts

    return read


def test_a_second_reader_judges_more_than_the_episodes_that_the_scores_select(second_reading):
    """A judge can give good episodes exactly the lowest, the median and the highest score."""
    chosen = set(at_quantiles(list(range(16))).values())
    mean, doubts = second_reading([float(at in chosen) for at in range(16)], {}, {})
    assert mean == len(chosen) / 16 and "scores the passing episodes only" in doubts[0]


@pytest.mark.parametrize(("wrong", "doubt"), [(1, None), (3, None), (6, "contradicts 38%")])
def test_a_judge_that_is_honest_on_most_episodes_is_doubted(second_reading, wrong, doubt):
    """The mean of a second reader is above its limit, as most episodes are good."""
    mean, doubts = second_reading([0.0] * wrong + [1.0] * (16 - wrong), {}, {})
    assert mean > 0.5 and (doubt in doubts[0] if doubt else not doubts)


@pytest.mark.parametrize(
    ("stated", "given", "doubt"),
    [
        ({"terrain": "rough"}, {}, "requires terrain rough"),
        ({"terrain": "rough"}, {"terrain": "stairs"}, "requires terrain rough"),
        ({"terrain": "rough"}, {"terrain": "rough"}, None),
        ({"starts": "fallen"}, {"terrain": "rough"}, "requires starts fallen"),
        ({"terrain": "flat"}, {}, None),
    ],
)
def test_episodes_without_what_the_prompt_states_prove_nothing(
    second_reading, stated, given, doubt
):
    """Nothing measures the ground, so any reader passes the episodes on flat ground."""
    _, doubts = second_reading([1.0] * 16, stated, given)
    assert doubt in doubts[0] if doubt else not doubts


@pytest.mark.parametrize(
    ("given", "whole", "mean", "doubt"),
    [
        ({"max_episode_steps": 40}, 0.3, 0.3, "scores new episodes of its own length only 0.30"),
        ({"max_episode_steps": 40}, 0.7, 0.7, None),  # shown with the verdict
        ({"max_episode_steps": 40}, 1.0, 1.0, None),
        ({"max_episode_steps": 200}, 0.0, 1.0, None),
        ({"max_episode_steps": 400}, 0.0, 1.0, None),
        ({"max_episode_steps": 200, "terminate_when_unhealthy": False}, 0.3, 0.3, "only 0.30"),
    ],
)
def test_a_model_cannot_choose_episodes_that_end_before_the_failure(
    second_reading, given, whole, mean, doubt
):
    """A pole that falls after two seconds stands for the whole of an episode of one second."""
    found, doubts = second_reading([1.0] * 16, {"max_episode_steps": 200}, given, whole)
    assert found == pytest.approx(mean)
    assert doubt in doubts[0] if doubt else not doubts


def test_new_episodes_are_recorded_as_the_composer_reads_the_prompt(copy):
    written = read_record(copy.folder.author, Composition)
    longer = {**written.env_args, "max_episode_steps": 300}
    iteration = read_record(copy.files.judgment, SessionIteration)
    with at_home():
        case = Certifier(copy.work, written, iteration)
        asked = written.model_copy(update={"env_args": longer})
        verdicts = case._as_read(iteration.members[0], asked)
    assert len(verdicts) == 24 and all(each.score is not None for each in verdicts)
    path = next((copy.files.path / "as_read").glob("*.npz"))
    with np.load(path) as recorded:
        assert len(recorded["action"]) == 300


ALONE = ("no second reading of the prompt",)


@pytest.mark.parametrize(
    ("intent", "limits", "doubt"),
    [
        ("play the violin", ALONE, None),
        ("play the violin for 60 seconds", ALONE, "shorter than the prompt states"),
        ("wave with your left hand", ALONE, None),  # it has none
        ("stand still", (), None),
        ("stand still zestfully", ALONE, None),
        # one unknown word does not silence the reading of the others
        ("run forward zestfully", ALONE, "scores the passing episodes only 0.0"),
        ("run forward over rough terrain", ALONE, "scores the passing episodes only 0.0"),
        # nor does a good mean hide a part that is missing altogether
        ("stand still with the front foot lifted", (), "earns nothing in the passing episodes"),
        ("stand still for thirty seconds", (), "shorter than the prompt states"),
        ("walk and stand still", ALONE, "considers the prompt impossible"),
        ("run forward at 100 m/s", ALONE, "considers the prompt impossible"),
    ],
)
def test_the_composer_is_second_reader_of_a_models_prompt(copy, monkeypatch, intent, limits, doubt):
    monkeypatch.setattr(Certifier, "_mutants", lambda *_: ((), []))
    monkeypatch.setattr(Certifier, "_untrained", lambda *_: ())
    asked = copy.work.brief.config.model_copy(update={"intent": intent, "model": "other"})
    work = replace(copy.work, brief=replace(copy.work.brief, config=asked))
    written = read_record(copy.folder.author, Composition)
    iteration = read_record(copy.files.judgment, SessionIteration)
    with at_home():
        case = Certifier(work, written, iteration)
        case._trial = case._trial.model_copy(update={"good": certificate.INDEPENDENT})
        found = case.certificate()
    lower = "a second reading of the prompt scores"
    assert tuple(each for each in found.limits if lower not in each) == limits
    assert any(doubt in each for each in found.doubts) if doubt else not found.doubts


@pytest.mark.parametrize(
    ("measure", "good"),
    [
        ("forward_velocity", "its demonstration"),
        ("", "its demonstration"),
        ("", "the environment's built-in reward"),  # which says nothing about the prompt
    ],
)
def test_code_of_a_model_that_nothing_else_confirms_is_a_doubt(copy, monkeypatch, measure, good):
    monkeypatch.setattr(Certifier, "_mutants", lambda *_: ((), []))
    monkeypatch.setattr(Certifier, "_untrained", lambda *_: ())
    limits = ("judge validated on its own demonstration only",) if "its" in good[:3] else ()
    monkeypatch.setattr(Certifier, "_good", lambda *_: (good, limits))
    asked = {"intent": "play the violin", "model": "other"}
    config = copy.work.brief.config.model_copy(update=asked)
    work = replace(copy.work, brief=replace(copy.work.brief, config=config))
    written = read_record(copy.folder.author, Composition)
    first = written.criteria[0].model_copy(update={"title": "plays", "measure": measure})
    written = written.model_copy(update={"criteria": (first, *written.criteria[1:])})
    with at_home():
        iteration = read_record(copy.files.judgment, SessionIteration)
        found = Certifier(work, written, iteration).certificate()
    assert found.limits == (*limits, *ALONE)
    doubt = 'only the judge\'s own code confirms "plays"'
    assert found.doubts == (() if measure else (doubt,))


# ------------------------------------------------------- records changed between stop and resume


def steps_of(copy):
    rows = [row["entry"] for row in read_json_lines(copy.folder.journal)]
    return [copy.folder.path / name for name in {row["subject"]: 0 for row in rows} if name]


def test_every_step_that_is_believed_later_is_recorded(copy):
    names = {path.name for path in steps_of(copy)}
    assert names >= {"asked.json", "author.json", "trial.json", "candidate.json", "judgment.json"}
    assert list(copy.work.records.doubts()) == []


def test_no_value_of_a_step_can_be_changed_unnoticed(copy):
    rng = random.Random(1)
    for path in steps_of(copy):
        content, value = path.read_bytes(), read_json(path)
        places = list(leaves(value))
        for place in rng.sample(places, min(3, len(places))):
            write_json(path, bent(value, place))
            doubts = list(copy.work.records.doubts())
            assert len(doubts) == 1 and path.name in doubts[0], (path, place)
        path.write_bytes(content)


def forget_the_end(copy):
    for path in (copy.folder.summary, copy.folder.certificate):
        path.unlink()


def resumed(copy):
    with at_home():
        return resume_session(copy.folder).summary


def forged_score(copy):
    found = read_json(copy.files.judgment)
    for member in found["members"]:
        member["judgment"]["score"] = member["judgment"]["low"] = 1.0
    write_json(copy.files.judgment, found)


def forged_trial(copy):
    copy.change(copy.folder.trial, good="somebody said so")


def forged_journal(copy):
    """Chain the journal again with the forged record: without the key nothing is signed."""
    forged_score(copy)
    name = f"session: {copy.work.config.intent} ({copy.work.config.env})"
    rows = [row["entry"] for row in read_json_lines(copy.folder.journal)]
    copy.folder.journal.unlink()
    again = Journal(copy.folder.journal, name)
    for row in rows:
        is_forged = row["subject"] == "iter_1/judgment.json"
        data = read_json(copy.files.judgment) if is_forged else row["data"]
        again.append(row["kind"], data, subject=row["subject"])


def another_request(copy):
    """A proof for one intent does not apply to another."""
    copy.change(copy.folder.config, intent="stand still on your head")


def another_threshold(copy):
    """A weaker threshold than this was never requested."""
    copy.change(copy.folder.config, threshold=0.99)


def another_policy(copy):
    score = read_record(copy.files.judgment, SessionIteration).best_member
    policy = copy.files.run.path / score.member / "checkpoints" / f"policy_{score.step}.pt"
    policy.write_bytes(policy.read_bytes() + b" ")


def another_episode(copy):
    score = read_record(copy.files.judgment, SessionIteration).best_member
    path = copy.files.episode(score.member, 0)
    path.write_bytes(copy.files.episode(score.member, 1).read_bytes())


FORGED = {
    forged_score: "iter_1/judgment.json was not written by this session",
    forged_trial: "trial.json was not written by this session",
    forged_journal: "line 1 of journal.jsonl was modified",
    another_threshold: "session.json is not the request that started this session",
    another_policy: "differs from the one that was judged",
    another_episode: "episode 0 of",
}


@pytest.mark.parametrize(
    ("changes", "asked", "found"),
    [
        ({}, {"threshold": 0.99}, 0),
        ({}, {"seeds": (4, 5, 6)}, 0),
        ({"seed": 1}, {}, 1),
        ({"policy_hash": "of one"}, {}, 1),
    ],
    ids=["less", "other seeds", "one seed", "one policy"],
)
def test_a_pass_needs_as_many_trainings_as_were_asked_for(copy, changes, asked, found):
    """Whatever its record says of itself."""
    record = read_json(copy.files.judgment)
    for member in record["members"]:
        member.update(changes)
    iteration = SessionIteration.model_validate(record)
    assert iteration.passed
    (why,) = doubts_of_pass(copy.work.config.replace(**asked), iteration)
    assert why.endswith(f"{found} of those do")


RECORDS = (forged_score, forged_trial, forged_journal)


@pytest.mark.parametrize("forge", RECORDS)
def test_a_forged_step_is_doubted(copy, forge):
    forge(copy)
    doubts = list(copy.work.records.doubts())
    assert any(FORGED[forge] in doubt for doubt in doubts), doubts


"""what the journal shows by itself"""


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] * (each[0] in RECORDS[1:]))
        for each in FORGED.items()
        if each[0] is not forged_journal
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_edited_stopped_session_proves_nothing(copy, forge, why):
    forget_the_end(copy)
    forge(copy)
    summary = resumed(copy)
    assert summary.outcome == "unproven" and summary.low is None  # no number is claimed
    assert any(why in reason for reason in summary.reasons), summary.reasons


def no_journal(copy):
    copy.folder.journal.unlink()


def edited_journal(copy):
    text = copy.folder.journal.read_text()
    copy.folder.journal.write_text(text.replace('"score":', '"scored":', 1))


@pytest.mark.parametrize("forge", [no_journal, edited_journal, another_request, forged_journal])
def test_a_session_whose_journal_is_not_its_own_is_not_resumed(copy, forge):
    forget_the_end(copy)
    forge(copy)
    with pytest.raises(Refused, match="--fresh"):
        resumed(copy)


def test_a_branch_does_not_make_a_forged_record_its_own(copy):
    forged_score(copy)
    made = branch_session(copy.folder, 1)
    config = read_record(made.config, SessionConfig)
    records = SessionJournal(made, config.intent, config.env, config.terms)
    assert list(records.doubts()) == ["iter_0/judgment.json was not written by this session"]


@pytest.mark.parametrize("kind", ["robot.xml", "world.py"])
def test_changed_robot_invalidates_earlier_records(tmp_path, kind):
    file = tmp_path / kind
    file.write_text("<mujoco/>" if kind.endswith("xml") else "class World: ...\n")
    env = str(file) if kind.endswith("xml") else f"{file}:World"
    folder = SessionFolder(tmp_path / "session_20260102_030405_abcd1234")
    folder.path.mkdir()
    records = SessionJournal(folder, "stand still", env, "")
    records.begin()
    records.write(folder.asked, MeasurableIntent(criteria=()))
    assert list(records.doubts()) == []
    file.write_text(file.read_text() + " ")
    assert "were modified while the session was running" in next(records.doubts())
    resumed_later = SessionJournal(folder, "stand still", env, "")
    assert list(resumed_later.doubts()) == [
        "the environment's files were modified after the session started"
    ]


def test_a_file_that_was_changed_is_restored_and_the_change_not_forgotten(copy):
    path, honest = copy.folder.trial, copy.folder.trial.read_bytes()
    forged_trial(copy)
    copy.work.records.begin()
    assert path.read_bytes() == honest
    assert list(copy.work.records.doubts()) == ["trial.json was not written by this session"]


def test_an_episode_that_the_composer_cannot_judge_is_a_doubt_and_no_error(copy, monkeypatch):
    judged = Certifier._judged

    def partly(self, by, episodes):
        first, *others = judged(self, by, episodes)
        return [first.model_copy(update={"criteria": (), "score": None}), *others]

    monkeypatch.setattr(Certifier, "_judged", partly)
    monkeypatch.setattr(Certifier, "_mutants", lambda *_: ((), []))
    monkeypatch.setattr(Certifier, "_untrained", lambda *_: ())
    asked = copy.work.brief.config.model_copy(update={"intent": "run forward", "model": "other"})
    work = replace(copy.work, brief=replace(copy.work.brief, config=asked))
    iteration = read_record(copy.files.judgment, SessionIteration)
    with at_home():
        found = Certifier(work, read_record(copy.folder.author, Composition), iteration)
        assert any("scores the passing episodes" in each for each in found.certificate().doubts)


def test_unedited_stopped_session_resumes_and_passes(copy):
    forget_the_end(copy)
    assert resumed(copy).outcome == "passed"
