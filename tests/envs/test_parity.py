import pytest

from telic.envs.tasks import TASKS
from tests.envs.parity import compare

TOLERANCE = 1e-5


LARGE = (
    "Ant-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "Walker2d-v5",
    "Swimmer-v5",
    "InvertedPendulum-v5",
    "Reacher-v5",
)
"""whose thousand steps take long; with other arguments they are compared below"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in TASKS]
)
def test_a_thousand_steps_equal_gymnasium_in_every_value(name):
    found = compare(name, steps=1000)
    assert found.worst[0] <= TOLERANCE, found.worst
    assert found.episodes >= 2  # whole episodes were seen, and what follows them


ARGUMENTS = {
    "HalfCheetah-v5": {
        "forward_reward_weight": 2.5,
        "ctrl_cost_weight": 0.3,
        "exclude_current_positions_from_observation": False,
        "frame_skip": 3,
        "max_episode_steps": 31,
    },
    "Ant-v5": {
        "main_body": "front_left_leg",
        "contact_force_range": (-3.0, 0.5),
        "contact_cost_weight": 0.01,
        "healthy_z_range": (0.5, 0.8),
        "healthy_reward": 0.3,
        "include_cfrc_ext_in_observation": False,
        "max_episode_steps": 40,
    },
    "Hopper-v5": {
        "terminate_when_unhealthy": False,
        "healthy_state_range": (-4.0, 4.0),
        "healthy_angle_range": (-0.05, 0.1),
        "healthy_reward": 0.7,
        "max_episode_steps": 100,
    },
    "Walker2d-v5": {
        "healthy_z_range": (1.1, 1.3),
        "ctrl_cost_weight": 0.5,
        "exclude_current_positions_from_observation": False,
    },
    "Humanoid-v5": {
        "contact_cost_weight": 1e-3,
        "contact_cost_range": (0.2, 1.5),
        "include_cinert_in_observation": False,
        "include_qfrc_actuator_in_observation": False,
        "exclude_current_positions_from_observation": False,
        "terminate_when_unhealthy": False,
        "max_episode_steps": 50,
    },
    "HumanoidStandup-v5": {
        "impact_cost_weight": 1e-4,
        "impact_cost_range": (0.1, 0.4),
        "uph_cost_weight": 3.0,
        "include_cvel_in_observation": False,
        "include_cfrc_ext_in_observation": False,
        "max_episode_steps": 50,
    },
    "Swimmer-v5": {
        "exclude_current_positions_from_observation": False,
        "forward_reward_weight": 3.0,
        "max_episode_steps": 25,
    },
    "Reacher-v5": {
        "reward_dist_weight": 2.0,
        "reward_control_weight": 0.1,
        "frame_skip": 4,
        "max_episode_steps": 7,
    },
    "InvertedPendulum-v5": {"reset_noise_scale": 0.1, "frame_skip": 1},
    "InvertedDoublePendulum-v5": {"healthy_reward": 3.3, "frame_skip": 2},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_constructor_arguments_mean_what_they_mean_in_gymnasium(name):
    found = compare(name, steps=120, **ARGUMENTS[name])
    assert found.worst[0] <= TOLERANCE, found.worst
    assert found.episodes >= 2
