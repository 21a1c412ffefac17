"""Hazards are found where they are and nowhere else."""

from __future__ import annotations

import pytest

from telic.studies.scan.audit import RULES

VOCABULARY = {
    "actuates_hardware",
    "network_by_default",
    "network_via_documented_examples",
    "dataset_needs_network",
    "eval_needs_network",
    "installs_packages_at_runtime",
    "deletes_results",
    "exit_zero_on_crash",
    "executes_generated_code",
    "documented_command_missing",
    "eval_script_broken",
    "eval_distribution_differs",
    "eval_no_metrics",
    "eval_not_held_out",
    "train_and_eval_share_entrypoint",
    "display_by_default",
    "renders_by_default",
    "proprietary_simulator",
    "gpu_required",
    "random_seed_by_default",
    "no_seed_control",
    "reward_transformed_for_training",
    "checkpoint_off_by_default",
    "no_local_metric_file",
    "config_not_cli_overridable",
    "budget_hardcoded",
    "nested_search",
    "multiple_trainers",
    "no_entrypoint",
    "precision_changes_result",
    "latest_run_default",
    "env_version_floats",
    "unmaintained_part",
    "behaviour_depends_on_installed_packages",
    "env_activation_required",
    "long_default_budget",
    "output_dir_collision",
    "unpriced_llm_calls",
}


def test_every_hazard_of_the_vocabulary_has_a_rule():
    assert {rule.__name__ for rule in RULES} == VOCABULARY


@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [
        (
            "single_file_tyro",
            {
                "network_via_documented_examples",
                "documented_command_missing",
                "multiple_trainers",
                "reward_transformed_for_training",
                "checkpoint_off_by_default",
            },
            {"network_by_default", "actuates_hardware", "no_seed_control", "no_local_metric_file"},
        ),
        (
            "presets_yaml",
            {"random_seed_by_default", "checkpoint_off_by_default", "env_version_floats"},
            {"network_by_default", "no_entrypoint", "multiple_trainers"},
        ),
        ("library_only", {"no_entrypoint"}, {"network_by_default", "no_seed_control"}),
        (
            "class_attributes",
            {
                "eval_distribution_differs",
                "eval_no_metrics",
                "display_by_default",
                "gpu_required",
                "proprietary_simulator",
                "latest_run_default",
                "env_activation_required",
                "budget_hardcoded",
            },
            {"network_by_default", "actuates_hardware"},
        ),
        (
            "hydra_tasks",
            {"train_and_eval_share_entrypoint", "display_by_default"},
            {"network_by_default", "random_seed_by_default"},
        ),
        (
            "term_managers",
            {"network_by_default", "eval_needs_network", "no_local_metric_file"},
            {"actuates_hardware"},
        ),
        (
            "absl_dicts",
            {"train_and_eval_share_entrypoint", "no_local_metric_file"},
            {"network_by_default"},
        ),
        ("hardware_sdk", {"actuates_hardware"}, {"network_by_default", "multiple_trainers"}),
        (
            "tracker_on",
            {
                "network_by_default",
                "exit_zero_on_crash",
                "no_seed_control",
                "no_local_metric_file",
                "config_not_cli_overridable",
            },
            {"actuates_hardware", "deletes_results"},
        ),
        (
            "destructive",
            {
                "installs_packages_at_runtime",
                "deletes_results",
                "executes_generated_code",
                "eval_script_broken",
                "random_seed_by_default",
                "renders_by_default",
                "gpu_required",
                "budget_hardcoded",
                "nested_search",
                "output_dir_collision",
            },
            {"network_by_default", "actuates_hardware"},
        ),
    ],
)
def test_hazards_of_each_shape(audit, name, present, absent):
    found = {each.id for each in audit(name).hazards}
    assert present - found == set()
    assert absent & found == set()


def test_hardware_is_never_offered_as_a_command(audit):
    found = audit("hardware_sdk")
    assert all("deploy" not in entry.path for entry in (*found.train, *found.evaluate))


def test_evidence_points_at_real_lines(unpack, audit):
    root = unpack("destructive")
    for each in audit("destructive").hazards:
        for evidence in each.evidence:
            lines = (root / evidence.path).read_text().splitlines()
            assert 1 <= evidence.line <= len(lines)
    deletes = next(h for h in audit("destructive").hazards if h.id == "deletes_results")
    assert (
        "rmtree"
        in (root / deletes.evidence[0].path).read_text().splitlines()[deletes.evidence[0].line - 1]
    )


@pytest.mark.parametrize(
    ("source", "hazard"),
    [
        ("import torch\ntorch.set_float32_matmul_precision('high')\n", "precision_changes_result"),
        ("import openai\n", "unpriced_llm_calls"),
        (
            "try:\n    import fancy\nexcept ImportError:\n    fancy = None\n",
            "behaviour_depends_on_installed_packages",
        ),
        ("import gdown\ngdown.download('u')\n", "dataset_needs_network"),
        (
            "def check(model, env):\n    model.evaluate_policy(env)\ncheck(1, 2)\n",
            "eval_not_held_out",
        ),
        (
            "import argparse\np = argparse.ArgumentParser()\n"
            "p.add_argument('--total-timesteps', default=100_000_000)\n",
            "long_default_budget",
        ),
    ],
)
def test_single_lines_raise_a_hazard(tmp_path, source, hazard):
    from telic.studies.scan.audit import audit_repository

    plain = "\nfrom stable_baselines3 import PPO\n\nPPO('MlpPolicy', 'x').learn(steps)\n"
    (tmp_path / "train.py").write_text(plain)
    assert hazard not in {each.id for each in audit_repository(tmp_path).hazards}
    (tmp_path / "train.py").write_text(source + plain)
    assert hazard in {each.id for each in audit_repository(tmp_path).hazards}
