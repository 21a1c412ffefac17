"""Rewards written for the per-step contract run unchanged and give the numbers they mean."""

import dataclasses

import numpy as np
import pytest

from telic.rewards.load import load_reward

from .conftest import REFERENCE, plain_evaluation, run

MODES = {
    "any_info": "looped",
    "attributes_history": "looped",
    "branches": "vectorised",
    "class_with_properties": "vectorised",
    "closure_nonlocal": "looped",
    "closure_progress": "looped",
    "conditional_term": "vectorised",
    "early_return": "vectorised",
    "forward_bare": "vectorised",
    "helpers_and_constants": "vectorised",
    "legacy_six": "vectorised",
    "math_module": "vectorised",
    "module_state": "looped",
    "numpy_heavy": "vectorised",
    "per_step_weights": "vectorised",
    "plain_class": "vectorised",
    "python_sums": "vectorised",
    "simulator": "vectorised",
    "sorted_values": "looped",
}


def test_every_file_has_an_expected_mode():
    assert {path.stem for path in REFERENCE.glob("*.py")} == set(MODES)


@pytest.mark.parametrize("name", sorted(MODES))
def test_a_file_gives_what_plain_python_gives(name, recording):
    path = REFERENCE / f"{name}.py"
    with np.errstate(all="ignore"):
        totals, terms = plain_evaluation(path.read_text(), recording)
    reward = load_reward(path)
    reward.decide(recording)
    assert reward.mode == MODES[name]
    got, got_terms = run(reward, recording)
    np.testing.assert_allclose(got, totals, rtol=1e-5, atol=1e-6)
    assert set(got_terms) >= set(terms)
    for term, values in terms.items():
        np.testing.assert_allclose(got_terms[term], values, rtol=1e-5, atol=1e-6, err_msg=term)


@pytest.mark.parametrize("name", ["branches", "closure_nonlocal", "simulator"])
def test_trusted_and_checked_code_run_alike(name, recording):
    checked, trusted = (load_reward(REFERENCE / f"{name}.py", trusted=each) for each in (0, 1))
    for reward in (checked, trusted):
        reward.decide(recording)
    assert checked.mode == trusted.mode
    np.testing.assert_array_equal(run(checked, recording)[0], run(trusted, recording)[0])


@pytest.mark.parametrize("name", [name for name, mode in MODES.items() if mode == "vectorised"])
def test_lifted_and_looped_give_the_same(name, recording):
    reward = load_reward(REFERENCE / f"{name}.py")
    decision = reward.decide(recording)
    vectorised, vectorised_terms = run(reward, recording)
    reward.adopt(dataclasses.replace(decision, mode="looped", whole_info=True))
    looped, looped_terms = run(reward, recording)
    np.testing.assert_allclose(vectorised, looped, rtol=1e-6, atol=1e-7)
    for term, values in looped_terms.items():
        np.testing.assert_allclose(vectorised_terms[term], values, rtol=1e-6, atol=1e-7)
