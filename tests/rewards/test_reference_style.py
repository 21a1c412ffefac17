"""Rewards written for the per-step contract run unchanged and give the numbers they mean."""

import numpy as np
import pytest

from telic.rewards.reward import load_reward

from .conftest import REFERENCE, plain_evaluation, run

NAMES = sorted(path.stem for path in REFERENCE.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_gives_what_plain_python_gives(name, recording):
    path = REFERENCE / f"{name}.py"
    with np.errstate(all="ignore"):
        totals, terms = plain_evaluation(path.read_text(), recording)
    reward = load_reward(path)
    reward.decide(recording)
    assert reward.mode == ("vmap" if name == "arithmetic" else "looped")
    got, got_terms = run(reward, recording)
    np.testing.assert_allclose(got, totals, rtol=1e-5, atol=1e-6)
    assert set(got_terms) >= set(terms)
    for term, values in terms.items():
        np.testing.assert_allclose(got_terms[term], values, rtol=1e-5, atol=1e-6, err_msg=term)


@pytest.mark.parametrize("name", ["branches", "closure_nonlocal"])
def test_trusted_and_checked_code_run_alike(name, recording):
    checked, trusted = (load_reward(REFERENCE / f"{name}.py", trusted=each) for each in (0, 1))
    for reward in (checked, trusted):
        reward.decide(recording)
    assert checked.mode == trusted.mode
    np.testing.assert_array_equal(run(checked, recording)[0], run(trusted, recording)[0])
