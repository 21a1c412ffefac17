"""Settings: overrides, helpful refusals."""

import pytest

from telic.errors import ConfigError
from telic.training.job import PpoSettings


def test_dotted_assignments_change_values_and_keep_the_original():
    base = PpoSettings()
    changed = base.override(["gamma=0.9", "hidden=32,16", "normalize-obs=false"])
    assert (changed.gamma, changed.hidden, changed.normalize_obs) == (0.9, (32, 16), False)
    assert base.gamma == 0.99


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("gama=0.9", "gamma"),
        ("gamma=2", "gamma=2"),
        ("gamma", "key=value"),
        ("minibatch_size=500", "Try minibatch_size=256"),
        ("activation=swish", "tanh"),
    ],
)
def test_a_bad_setting_says_what_to_write_instead(assignment, says):
    with pytest.raises(ConfigError, match=says):
        PpoSettings().override([assignment])
