"""Terms of a user's file."""

from pathlib import Path

import pytest
import torch

from telic.errors import ConfigError, Refused
from telic.storage.keys import permit
from telic.tracking.config import TerminationsGroup, preset
from telic.tracking.own_terms import load_terms, permission
from telic.tracking.scores import check_rewards, failures, rewards
from telic.tracking.task import make_tracking, open_motions
from tests.tracking.test_scores import bodies, shifted, tracked

TERMS = """
import torch

def error_height(t, *, weight=0.5, sigma=0.1):
    return (t.target.pos[:, 0, 2] - t.bodies.pos[:, 0, 2]).square()

def penalty_low(t, *, weight=-2.0, limit=10.0):
    return (limit - t.bodies.pos[:, 0, 2]).clamp_min(0.0)

def termination_far(t, *, limit=0.8):
    return (t.target.pos[:, 0] - t.bodies.pos[:, 0]).norm(dim=-1) > limit

def helper(x):
    return x
"""


def own(source: str):
    permit(permission(source))
    return load_terms(source)


def test_terms_of_a_file_take_part_in_rewards_and_terminations():
    terms, target = own(TERMS), bodies()
    config = preset("planar", ["rewards.terms.height.weight=0.7"], TERMS, terms.rewards)
    check_rewards(config.rewards.terms, terms)
    lower = shifted(target, pos=torch.tensor([0.0, 0.0, -0.1]))
    values = rewards(tracked(lower, target), config.rewards.terms, 0.02, own=terms)
    assert float(values["height"]) == pytest.approx(0.7 * 0.02 * torch.exp(torch.tensor(-1.0)))
    low = 10.0 - float(lower.pos[0, 0, 2])
    assert float(values["low"]) == pytest.approx(-2.0 * 0.02 * low)

    limits = TerminationsGroup()
    for off, ends in ((0.7, False), (0.9, True)):
        far = shifted(target, pos=torch.tensor([off, 0.0, 0.0]))
        found = failures(tracked(far, target), limits, torch.zeros(1, dtype=torch.bool), own=terms)
        assert bool(found["far"]) is ends


def test_a_folder_with_unapproved_terms_runs_nothing(tmp_path: Path):
    trace = tmp_path / "ran"
    source = f"{TERMS}\nopen({str(trace)!r}, 'w')\n"
    config = preset("planar").model_copy(update={"terms": source})
    config = config.override(["motions.generated=4"])
    library = open_motions(config)
    with pytest.raises(Refused, match="not approved"):
        make_tracking(config, library, [0], num_envs=1)
    make_tracking(config, library, [0], num_envs=1, playing=True)  # needs no terms to be evaluated
    assert not trace.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", "no terms"),
        ("def error_x(t): return t", r"Define error_x\(t, \*, weight=NUMBER, sigma=NUMBER\)"),
        ("def penalty_x(t, *, weight, limit=1): return t", "Define penalty_x"),
        ("raise ValueError('no')", "ValueError: no"),
        ("def", "SyntaxError"),
    ],
)
def test_invalid_files_are_refused_in_words(source: str, words: str):
    with pytest.raises(ConfigError, match=words):
        own(source)
