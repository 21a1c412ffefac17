"""Other structures are offered only if the examples speak for them."""

from types import SimpleNamespace

import pytest

from telic.authors import composer
from telic.authors.author import Brief
from telic.authors.candidate import RewardCandidate, program_text
from telic.authors.composer import ComposerAuthor
from telic.composer.compose import compose, reshaped
from telic.envs import make
from telic.judges.criteria import Composition
from telic.judges.validation import Trial, text_hash
from telic.storage.files import read_record, write_json
from tests.authors.test_ranking import GOOD
from tests.authors.test_revision import earned, iteration
from tests.heard import Heard
from tests.session.sessions import asked, make_session
from tests.training.small import SPEED

INTENT = "run forward"


@pytest.fixture(scope="module")
def spec():
    env = make("HalfCheetah-v5", num_envs=1)
    env.close()
    return env.spec


@pytest.fixture
def brief(tmp_path, spec):
    """Return a brief of a session whose trial is on record."""
    folder = make_session(tmp_path)
    written = compose(INTENT, spec)
    write_json(folder.author, written)
    trial = Trial(
        examples=tuple(GOOD), reward_hash=text_hash(written.reward), env_args=written.env_args
    )
    write_json(folder.trial, trial)
    config = asked(intent=INTENT, env=spec.id)
    return Brief(config, spec, folder, emit=Heard())


@pytest.fixture
def trials(monkeypatch):
    """Let trials be as this says, by what is in the reward; returns what was tried."""
    said = SimpleNamespace(tried=[], bad=(), worse=(), broken=())

    def try_written(brief, written):
        said.tried.append(written.reward)

        def has(names):
            return any(f'"{name}": ' in written.reward for name in names)

        if has(said.broken):
            return Trial(examples=(), reward_problems=("It does not run.",))
        examples = [
            each.model_copy(update={"pay": -(each.pay or 0.0), "terms": {}})
            if has(said.worse)
            else each
            for each in GOOD
        ]
        problems = ("pays a bad habit",) if has(said.bad) else ()
        return Trial(examples=tuple(examples), reward_problems=problems)

    monkeypatch.setattr(composer, "try_written", try_written)
    return said


def offered(brief):
    written = read_record(brief.folder.author, Composition)
    found = ComposerAuthor(brief).first_structures(written)
    return {each.variant.structure[0]: each for each in found}


def test_the_first_reward_is_not_tried_again_and_others_are(brief, trials):
    found = offered(brief)
    assert len(found) == len(trials.tried) == 4 and list(found)[:2] == ["down", "tall"]
    own = reshaped(INTENT, brief.spec, ())
    assert own not in trials.tried
    assert len({program_text(text) for text in (own, *trials.tried)}) == 5
    assert all(each.words.startswith("a reward that ") for each in found.values())


@pytest.mark.parametrize("how", ["bad", "worse", "broken"])
def test_what_fails_on_the_examples_is_not_offered(how, brief, trials):
    setattr(trials, how, ("down",))
    assert "down" not in offered(brief) and "tall" in offered(brief)


def test_a_reward_that_is_not_as_the_composer_would_write_it_has_no_other_structures(brief, trials):
    written = read_record(brief.folder.author, Composition)
    write_json(brief.folder.author, written.model_copy(update={"reward": SPEED}))
    assert offered(brief) == {}


def test_a_revision_offers_a_structure_against_what_failed(brief, trials):
    written = read_record(brief.folder.author, Composition)
    first = RewardCandidate(reward=written.reward, env_args=written.env_args, steps=1000)
    write_json(brief.folder.iteration(1).candidate, first)
    fell = iteration(1, earned(0.2, "is not on its back", "falls"))
    made = ComposerAuthor(brief).revise([fell], ())
    names = [each.structure for each in made.variants if each.reward]
    assert names == [("down",), ("tall",)] and "charges for being down" in made.change
    assert not any(each.warm for each in made.variants)
    near = iteration(1, earned(0.7, "is not on its back", "falls"))
    going_on = ComposerAuthor(brief).revise([near], ())
    assert all(each.warm for each in going_on.variants)  # none of them needs other memory
    assert made.variants[1].weights["speed"] == 1.0
