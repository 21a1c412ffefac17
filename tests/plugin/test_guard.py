"""Only shell commands that would bypass the launch gate are denied."""

import time

import pytest

from telic.plugin.hooks import GATE, LONG, before_shell, shell_refusal

DENIED = [
    "python scripts/train.py",
    "python3 -u scripts/train.py --seed 3",
    "./scripts/train.py",
    "cd scripts && python train.py",
    "WANDB_MODE=offline nohup nice -n 5 .venv/bin/python scripts/train.py > log 2>&1 &",
    "uv run python scripts/train.py",
    "torchrun --nproc_per_node 2 scripts/train.py",
    "python -m scripts.train",
    "python -m torch.distributed.run scripts/train.py",
    "python -c 'from scripts.train import main; main()'",
    "bash -c 'python scripts/train.py'",
    'tmux new -d -s t "cd scripts; python train.py"',
    "ls # look first\npython scripts/train.py",
    "echo $(python scripts/train.py)",
    "for s in 1 2 3; do python scripts/train.py --seed $s; done",
    "python \\\n  scripts/train.py",
    "python scripts/train.py 'unclosed",
    "cat > run.yaml <<EOF\nlr: 1\nEOF\npython scripts/train.py",
]
ALLOWED = [
    "cat scripts/train.py",
    "sed -n 1,40p scripts/train.py | head",
    "git add scripts/train.py && git commit -m 'python scripts/train.py works'",
    "grep -rn 'python scripts/train.py' README.md",
    "wc -l < scripts/train.py",
    "ruff check scripts/train.py",
    "python -m py_compile scripts/train.py",
    "python -m pytest tests/test_train.py",
    "python scripts/evaluate.py policy.pt",
    "python other/train.py",
    "python scripts/training.py",
    "python -c 'print(splits[0], \"train\")'",
    "# python scripts/train.py",
    "cat > notes.md <<'EOF'\npython scripts/train.py\nEOF",
    "telic study run c-1 --confirm RUN_CANDIDATE",
    "telic study next",
    "",
]


@pytest.mark.parametrize("line", DENIED)
def test_training_that_bypasses_the_gate_is_denied(repository, line):
    assert shell_refusal(line, repository) == GATE


@pytest.mark.parametrize("part", ["x", ".", "<<a\n", "$(", "`", "open(", "sed -a ", ".telic/"])
def test_a_long_command_is_denied_in_time(repository, part):
    """The host gives the hook 5 s, and allows the command after that."""
    start = time.process_time()
    for padding in (part * (60_000 // len(part)), f"python -c '{part * 5000}'", part * 70_000):
        reason = shell_refusal(f"python scripts/train.py; : {padding}", repository)
        assert reason in (GATE, LONG)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("line", ALLOWED)
def test_everything_else_passes(repository, line):
    assert shell_refusal(line, repository) is None


@pytest.mark.parametrize(
    ("line", "denied"),
    [
        ("walker train --task flat", True),
        ("/opt/bin/walker --quiet train", True),
        ("walker play --task flat", False),
        ("pip show walker", False),
    ],
)
def test_an_installed_command_is_known_by_its_verb(with_adapter, line, denied):
    root = with_adapter({"train": {"argv": ["walker", "train", "--seed", "{seed}"]}})
    assert (shell_refusal(line, root) is not None) == denied


def test_a_command_that_does_not_say_what_it_starts_denies_nothing(with_adapter):
    root = with_adapter({"train": {"argv": ["python", "{checkpoint}", "{overrides}"]}})
    assert shell_refusal("python anything.py", root) is None


@pytest.mark.parametrize(
    "line",
    [
        "telic study approve",
        "script -qc 'telic study approve budget' /dev/null",
        "yes | .venv/bin/telic study approve",
        "TELIC_ACTOR=human:ada telic study run --resume",
    ],
)
def test_agent_cannot_answer_for_a_person(repository, line):
    assert "requires a person" in (shell_refusal(line, repository) or "")


def test_an_adapter_that_cannot_be_read_lets_nothing_through_that_it_names(repository):
    path = repository / ".telic" / "tasks" / "walk" / "adapter.yaml"
    path.write_text("commands:\n  train: {argv: [python, scripts/train.py\n")
    assert "cannot be read" in (shell_refusal("python scripts/train.py", repository) or "")
    assert shell_refusal("git status", repository) is None


def test_without_a_study_nothing_is_denied(tmp_path):
    assert shell_refusal("python scripts/train.py", tmp_path) is None


def test_the_answer_is_in_the_words_of_the_hosts(repository):
    inside = repository / "scripts"
    for command in ("python train.py", ["bash", "-lc", "python scripts/train.py"]):
        event = {"cwd": str(inside), "tool_name": "Bash", "tool_input": {"command": command}}
        answer = before_shell(event)["hookSpecificOutput"]
        assert answer["permissionDecision"] == "deny"
        assert answer["hookEventName"] == "PreToolUse"
        assert "telic study next" in answer["permissionDecisionReason"]
    assert before_shell({"cwd": str(inside), "tool_input": {"file_path": "x"}}) is None
