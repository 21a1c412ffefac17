from telic.envs.catalogue import catalogue, describe_text, known_ids
from telic.envs.tasks import TASKS


def test_the_list_has_the_ten_first_and_all_of_gymnasium_that_works():
    listed = catalogue()
    assert [each.id for each in listed[: len(TASKS)]] == list(TASKS)
    assert all(each.fast and each.obs_dim for each in listed[: len(TASKS)])
    names = [each.id for each in listed]
    assert names == known_ids()
    assert {"CartPole-v1", "Pendulum-v1", "HalfCheetah-v4", "Pusher-v5"} <= set(names)
    assert "HalfCheetah-v2" not in names and not any(each.startswith("GymV") for each in names)


def test_a_description_says_everything_a_reward_author_needs():
    text = describe_text("Hopper-v5")
    for needed in (
        "| 1 | rooty | rad |",
        "| 5 | rootx_velocity | m/s |",
        "| 0 | thigh_joint | -1 | 1 |",
        "healthy_reward=1.0",
        "terminate_when_unhealthy",
        "| x_velocity |",
        "| 4 | foot | 5.316 | foot |",
        "| foot_joint | hinge | -0.7854 .. 0.7854 | 0 | 5 | 5 |",
        "0.008 s",
        "1000 steps (8 s)",
        "1.25 m high",
    ):
        assert needed in text, needed


def test_classic_tasks_and_model_files_are_described_too(tmp_path):
    assert "Discrete, 0 to 1" in describe_text("CartPole-v1")
    assert "push left" in describe_text("CartPole-v1")
    model = tmp_path / "cart.xml"
    model.write_text(
        '<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>'
        '<geom size="0.1"/></body></worldbody><actuator><motor joint="x"/></actuator></mujoco>'
    )
    assert "Default reward: zero" in describe_text(str(model))


def test_long_observations_are_described_in_blocks():
    text = describe_text("Humanoid-v5")
    assert "| 45..174 | cinert/torso/" in text
    assert text.count("\n") < 200
