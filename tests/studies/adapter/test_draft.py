"""A draft holds what a repository clearly says, cites each line, and never fails on its content."""

import os
from pathlib import Path

from telic.studies.documents.adapter import Adapter
from telic.studies.draft import draft_adapter

TRAINER = """\
import argparse
import wandb
from helpers import build

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-timesteps", type=int)
    parser.add_argument("--out-dir")
    parser.add_argument("--track", action="store_true")
    args = parser.parse_args()
    model = build(args)
    model.learn(args.total_timesteps)

if __name__ == "__main__":
    main()
"""
HELPERS = 'def build(args):\n    open("metrics.jsonl", "a")\n    save("model_{}.pt")\n'


def make(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def argv(found, name="train"):
    spec = getattr(found.adapter.commands, name)
    return None if spec is None else " ".join(spec.argv)


def why(found, field):
    return [each.why for each in found.questions if each.field == field]


def test_a_documented_command_is_completed_and_every_value_cites_a_line(tmp_path):
    readme = "# Walk\n\n```sh\n$ python train.py --task=quad --seed 7\n```\n"
    files = {"README.md": readme, "train.py": TRAINER, "helpers.py": HELPERS}
    found = draft_adapter(make(tmp_path, files))
    adapter = found.adapter
    expected = "--task=quad --seed {seed} --total-timesteps {steps} --out-dir {run_dir} {overrides}"
    assert argv(found) == f"python train.py {expected}"
    assert (adapter.config.system, adapter.config.override_style) == ("argparse", "--k v")
    assert (adapter.seeds.flag, adapter.seeds.controllable) == ("--seed", True)
    tracker, log = adapter.logging.sources
    assert tracker.network and not tracker.default and tracker.switch == "--track"
    assert (log.kind, log.path_template) == ("json", "metrics.jsonl")
    assert adapter.outputs.checkpoint_glob == "model_*.pt"
    cited = adapter.provenance["commands.train"].evidence
    assert cited[0] == "README.md:4" and "train.py:8" in cited
    assert adapter.provenance["launcher"].status == "unknown"
    for each in adapter.provenance.values():
        assert (each.status == "inferred") == bool(each.evidence)
        for place in each.evidence:
            path, _, line = place.rpartition(":")
            assert int(line) <= len((tmp_path / path).read_text().splitlines())
    assert Adapter.parse(adapter.as_data()) == adapter


def test_stand_ins_and_uploads_are_never_proposed(tmp_path):
    for words in (
        "--task=xxx",
        "--task TASK",
        "--task=<name>",
        "--task=quad --push-to-hub",
        "--task=quad --track",
        "--task=quad --wandb-project-name walks",
        "--task=quad && scp model.pt host:",
    ):
        readme = f"`python train.py {words}`\n"
        found = draft_adapter(make(tmp_path, {"README.md": readme, "train.py": TRAINER}))
        assert argv(found) is None, words
        assert why(found, "commands.train")[0].startswith("train.py requires --task")


def test_what_drives_hardware_is_named_and_not_proposed(tmp_path):
    link = "from unitree_sdk2py.core.channel import ChannelPublisher\n"
    deploy = "import link\nif __name__ == '__main__':\n    link.robot.learn()\n"
    train = "if __name__ == '__main__':\n    model.learn()\n"
    readme = "`python train_real.py`\n"
    files = {"README.md": readme, "link.py": link, "train_real.py": deploy, "fit.py": train}
    found = draft_adapter(make(tmp_path, files))
    assert argv(found) == "python fit.py {overrides}"
    (hazard,) = found.adapter.hazards
    assert (hazard.id, hazard.evidence) == ("actuates_hardware", "link.py:1")
    assert "train_real.py controls hardware (link.py:1)" in why(found, "commands.train")


def test_several_trainers_are_asked_about_and_a_library_has_none(tmp_path):
    script = "if __name__ == '__main__':\n    agent.learn()\n"
    found = draft_adapter(make(tmp_path / "two", {"algos/ppo.py": script, "algos/sac.py": script}))
    assert argv(found) is None
    (question,) = [each for each in found.questions if each.field == "commands.train"]
    assert question.candidates == ("python algos/ppo.py", "python algos/sac.py")
    library = draft_adapter(make(tmp_path / "lib", {"lib/__init__.py": "", "lib/ppo.py": "x = 1"}))
    adapter = library.adapter
    assert (adapter.commands.train, adapter.config.system, adapter.seeds.flag) == (None,) * 3
    assert {each.status for each in adapter.provenance.values()} == {"unknown"}


def test_hydra_tyro_and_console_scripts(tmp_path):
    hydra = "import hydra\n\n@hydra.main(config_path='cfg', config_name='base')\ndef main(cfg):\n"
    hydra += "    runner.learn()\n\nif __name__ == '__main__':\n    main()\n"
    files = {"train.py": hydra, "cfg/base.yaml": "seed: 1\nsteps: 5\n"}
    found = draft_adapter(make(tmp_path / "hydra", files))
    assert argv(found) == "python train.py seed={seed} steps={steps} {overrides}"
    assert (found.adapter.config.override_style, found.adapter.config.roots) == ("k=v", ("cfg",))
    tyro = "import tyro\n\nclass Args:\n    seed: int = 1\n    total_steps: int = 9\n\n"
    tyro += "def main():\n    args = tyro.cli(Args)\n    agent.learn(args)\n"
    project = '[project]\nname = "hop"\n[project.scripts]\nhop-train = "hop.begin:main"\n'
    files = {"pyproject.toml": project, "src/hop/begin.py": tyro}
    found = draft_adapter(make(tmp_path / "tyro", files))
    assert argv(found) == "hop-train --seed {seed} --total-steps {steps} {overrides}"
    assert found.adapter.provenance["commands.train"].evidence[0] == "pyproject.toml:4"


def test_the_evaluator_is_found_with_its_checkpoint(tmp_path):
    evaluate = "import argparse\nparser = argparse.ArgumentParser()\n"
    evaluate += (
        "parser.add_argument('--checkpoint', required=True)\nif __name__ == '__main__': run()\n"
    )
    found = draft_adapter(make(tmp_path, {"train.py": TRAINER, "scripts/evaluate.py": evaluate}))
    assert argv(found, "eval") == "python scripts/evaluate.py --checkpoint {checkpoint}"
    assert found.adapter.files.evaluator.globs == ("scripts/evaluate.py",)


def test_hostile_files_neither_stop_nor_mislead_it(tmp_path):
    make(tmp_path, {"train.py": TRAINER, "README.md": "`python train.py --task=quad`\n"})
    make(
        tmp_path,
        {
            "broken/train.py": "def (:\n",
            "deep/train.py": "x = " + "(" * 50_000 + ")" * 50_000,
            "long/train.py": "x = 1" + " + 1" * 30_000,
            "pyproject.toml": "[project\nscripts = 3",
            "setup.py": "console_scripts = [",
            "cfg/base.yaml": "a: [" * 10_000,
            "docs/a.md": "`python " + "a" * 200_000,
        },
    )
    (tmp_path / "binary_train.py").write_bytes(b"\0\xff" * 1000)
    (tmp_path / "huge_train.py").write_bytes(b"#" * 5_000_000)
    os.mkfifo(tmp_path / "train_pipe.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "loop_train.py").symlink_to("loop_train.py")
    (tmp_path / "outside_train.py").symlink_to("/etc/hostname")
    found = draft_adapter(tmp_path)
    assert argv(found) is not None and argv(found).startswith("python train.py --task=quad")
