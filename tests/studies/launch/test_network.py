"""A run has no network and no keys unless a person approved the network."""

import pytest

from telic.studies.launch.command import OFFLINE, run_environment

BASE = {"PATH": "/bin", "WANDB_API_KEY": "k", "WANDB_MODE": "online", "HOME": "/home/ada"}


def environment(**changes):
    given = {"declared": {}, "offline_choices": {}, "own": {}, "network_approved": False}
    return run_environment(BASE, **given | changes)


def test_without_approval_everything_is_told_to_stay_offline():
    found = environment(own={"TELIC_RUN": "r-1"})
    assert found.is_offline and found.variables.items() >= OFFLINE.items()
    assert found.variables["https_proxy"] == found.variables["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert found.withheld == ("WANDB_API_KEY",) and "WANDB_API_KEY" not in found.variables
    assert found.variables["HOME"] == "/home/ada" and found.variables["TELIC_RUN"] == "r-1"
    assert "HOME" not in found.changed and found.problems == ()


def test_with_approval_the_environment_is_the_callers():
    found = environment(network_approved=True, declared={"A": "1"})
    assert not found.is_offline and found.variables == {**BASE, "A": "1"}
    assert found.changed == {"A": "1"}


def test_a_tracker_may_keep_local_files():
    found = environment(offline_choices={"WANDB_MODE": "offline", "WANDB_DIR": "logs"})
    assert found.variables["WANDB_MODE"] == "offline" and found.variables["WANDB_DIR"] == "logs"


@pytest.mark.parametrize(
    "asked", [{"WANDB_MODE": "online"}, {"HF_HUB_OFFLINE": "0"}, {"https_proxy": "http://proxy"}]
)
def test_a_command_that_asks_for_the_network_is_named_and_does_not_get_it(asked):
    found = environment(declared=asked)
    (name,) = asked
    assert found.problems == (f"{name}={asked[name]} would open the network",)
    assert found.variables[name] == OFFLINE[name]


def test_entering_an_environment_puts_its_folder_first():
    assert environment(declared={"PATH": "/venv/bin:$PATH"}).variables["PATH"] == "/venv/bin:/bin"
