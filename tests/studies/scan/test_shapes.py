"""Each usual shape of repository gets its true answers."""

from __future__ import annotations

import pytest

from telic.studies.scan.records import RepositoryAudit

ENV = ("--env-id", "CartPole-v1")
QUAD = ("--task=quad", "--headless")
PRESET = ("--algo", "ppo", "--env", "CartPole-v1")
GIN = ("--base_dir", "/tmp/x", "--gin_files", "saloon/agents/dqn.gin")
WALKER = ("--env_name=Walker", "--use_tb")


def hazards(found: RepositoryAudit) -> set[str]:
    return {each.id for each in found.hazards}


def sinks(found: RepositoryAudit) -> set[str]:
    return {sink.name for sink in found.sinks if sink.default}


@pytest.mark.parametrize(
    ("name", "archetype", "train", "evaluation"),
    [
        (
            "single_file_tyro",
            "single_file_trainers",
            ("python", "algos/ppo.py", "--env-id", "CartPole-v1"),
            "none",
        ),
        ("presets_yaml", "framework", ("gardener", "train", *PRESET), "script"),
        ("library_only", "library", None, "none"),
        (
            "class_attributes",
            "framework",
            ("python", "walker/scripts/train.py", "--task=quad", "--headless"),
            "script",
        ),
        ("hydra_tasks", "framework", ("python", "gymtasks/train.py", "task=Ant"), "same_entry"),
        ("term_managers", "framework", ("stride-train",), "script"),
        ("gin_absl", "framework", ("python", "-um", "saloon.train", *GIN), "embedded"),
        ("absl_dicts", "framework", ("python", "learning/train_ppo.py", *WALKER), "same_entry"),
        ("hardware_sdk", "framework", ("python", "train.py"), "none"),
        ("tracker_on", "framework", ("python", "main.py"), "none"),
        ("destructive", "framework", ("python", "run_training.py"), "script"),
    ],
)
def test_commands(audit, name, archetype, train, evaluation):
    found = audit(name)
    assert found.archetype == archetype
    assert (found.train[0].argv if found.train else None) == train
    assert found.evaluation.style == evaluation


@pytest.mark.parametrize(
    ("name", "primary", "secondary", "style"),
    [
        ("single_file_tyro", "tyro", (), "--k v"),
        ("presets_yaml", "argparse", ("yaml",), "--k v"),
        ("library_only", "custom", (), "source_edit"),
        ("class_attributes", "custom", ("argparse",), "source_edit"),
        ("hydra_tasks", "hydra", (), "k=v"),
        ("term_managers", "tyro", ("dataclasses",), "--k v"),
        ("gin_absl", "gin", ("custom",), "--k=v"),
        ("absl_dicts", "custom", (), "--k=v"),
        ("tracker_on", None, (), None),
    ],
)
def test_how_settings_are_changed(audit, name, primary, secondary, style):
    config = audit(name).config
    assert (config.primary, config.secondary, config.override_style) == (primary, secondary, style)


@pytest.mark.parametrize(
    ("name", "default", "optional"),
    [
        ("single_file_tyro", {"tensorboard", "stdout"}, {"wandb"}),
        ("presets_yaml", {"csv", "stdout"}, {"wandb"}),
        ("library_only", {"tensorboard", "stdout"}, {"wandb"}),
        ("class_attributes", {"tensorboard", "stdout"}, set()),
        ("hydra_tasks", {"tensorboard", "stdout"}, {"wandb"}),
        ("term_managers", {"wandb", "stdout"}, set()),
        ("absl_dicts", {"stdout"}, {"wandb", "tensorboard"}),
        ("tracker_on", {"wandb", "stdout"}, set()),
    ],
)
def test_where_numbers_appear(audit, name, default, optional):
    found = audit(name)
    assert sinks(found) == default
    assert {sink.name for sink in found.sinks if not sink.default} == optional


def test_a_sink_of_a_dependency_names_it(audit):
    found = audit("class_attributes")
    assert {sink.via for sink in found.sinks if sink.name == "tensorboard"} == {"rsl_rl"}


@pytest.mark.parametrize("name", ["single_file_tyro", "presets_yaml", "library_only", "gin_absl"])
def test_rewards_may_be_outside(audit, name):
    reward = audit(name).sources.reward
    assert reward.external
    assert reward.files == ()


def test_reward_code_and_weights_are_linked_both_ways(audit):
    sources = audit("class_attributes").sources
    assert sources.reward.files == ("walker/envs/robot.py", "walker/envs/robot_config.py")
    linked = {term.name: term.value for term in sources.terms if term.code and term.weight}
    assert linked == {"tracking_lin_vel": 1.0, "torques": -0.00001}
    assert sources.uncoded == ["ghost_term"]
    assert sources.unweighted == ["orphan"]
    assert sources.termination.files == ("walker/envs/robot.py",)
    assert "walker/envs/robot.py" in sources.curriculum.files
    assert "walker/envs/robot.py" in sources.randomization.files


def test_terms_of_configuration_objects(audit):
    sources = audit("term_managers").sources
    assert set(sources.reward.files) == {"src/strider/tasks/velocity.py", "src/strider/mdp.py"}
    by_name = {term.name: term for term in sources.terms}
    assert by_name["effort"].value == -0.01
    assert by_name["track_velocity"].code == "src/strider/mdp.py:4"
    assert sources.uncoded == ["from_somewhere_else"]
    assert not sources.termination.external
    assert not sources.randomization.external


def test_terms_of_nested_dictionaries_and_yaml(audit):
    assert audit("absl_dicts").sources.uncoded == ["unheard"]
    terms = {term.name: term.value for term in audit("hydra_tasks").sources.terms}
    assert terms == {"heading": 0.5, "upright": 0.1}


@pytest.mark.parametrize(
    ("name", "flag", "default", "controllable"),
    [
        ("single_file_tyro", "--seed", 1, True),
        ("presets_yaml", "--seed", -1, True),
        ("hydra_tasks", "seed", 42, True),
        ("tracker_on", None, None, False),
    ],
)
def test_seeds(audit, name, flag, default, controllable):
    seeds = audit(name).seeds
    assert (seeds.flag, seeds.default, seeds.controllable) == (flag, default, controllable)


def test_logged_keys_get_canonical_names(audit):
    metrics = audit("single_file_tyro").metrics
    assert metrics == {"kl": "losses/approx_kl", "return": "charts/episodic_return"}


def test_evaluation_says_what_it_switches_off(audit):
    evaluation = audit("class_attributes").evaluation
    assert evaluation.turned_off == ("env_cfg.noise.add_noise", "env_cfg.domain_rand.push_robots")
    assert evaluation.emits_scalars is False
    assert audit("presets_yaml").evaluation.emits_scalars is True
