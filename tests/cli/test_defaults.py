"""Defaults of options from telic.toml and the environment, and what a file may not set."""

import json

import pytest

from telic.cli.main import app
from telic.core.verb import VerbResult
from telic.verbs import train as trains


@pytest.fixture
def asked(tmp_path, monkeypatch, capsys):
    """Return a function that returns the request of `telic train`, or the error."""
    for name in ("own", "user"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "own")
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "user"))
    requests = []
    monkeypatch.setattr(trains.train, "do", lambda r: requests.append(r) or VerbResult({}))

    def run(*args):
        with pytest.raises(SystemExit) as ended:
            app(["train", "Ant-v5", "--json", *args])
        made = capsys.readouterr()
        return (requests.pop(), made.err) if not ended.value.code else json.loads(made.out)

    run.folder = tmp_path
    return run


def test_the_command_line_precedes_the_environment_the_folder_and_the_user(asked, monkeypatch):
    (asked.folder / "user" / "telic.toml").write_text('device = "cuda"\nsteps = "7k"\nthreads = 3')
    (asked.folder / "own" / "telic.toml").write_text("seeds = [4, 5]\nthreads = 2\nsteps = 9000")
    request, noted = asked()
    assert (request.seeds, request.threads, request.device) == ((4, 5), 2, "cuda")
    assert request.steps == 9000 and "threads=2" in noted
    monkeypatch.setenv("TELIC_THREADS", "6")
    monkeypatch.setenv("TELIC_STEPS", "11k")
    request, _ = asked("--steps", "13k")
    assert (request.threads, request.steps, request.seeds) == (6, 13_000, (4, 5))


@pytest.mark.parametrize(
    "line",
    [
        "trust = true",
        "trusted = true",
        'python = "/tmp/python"',
        'reward = "reward.py"',
        'env = "task.py:Task"',
        'judge = "lenient"',
        'on = "ray://evil.example:1"',
        'host = "0.0.0.0"',
        "threshold = 0.1",
        'ANTHROPIC_API_KEY = "sk-ant-key"',
        'model = "vllm:http://evil.example/model"',
        'model = "openai:the-most-expensive"',
        "max_usd = 1000000",
        "max_calls = 1000000",
        'log = "wandb"',
        "[device]\nname = 1",
        "device = ",
    ],
)
def test_a_file_sets_no_code_key_launcher_trust_flag_or_threshold(asked, line):
    (asked.folder / "own" / "telic.toml").write_text(line)
    assert "telic.toml" in asked()["message"]


def test_variables_and_files_do_not_change_limits_of_existing_work(monkeypatch, asked, capsys):
    (asked.folder / "own" / "telic.toml").write_text("max_steps = 5")
    monkeypatch.setenv("TELIC_MAX_STEPS", "5")
    with pytest.raises(SystemExit):
        app(["resume", "--help"])
    assert "TELIC_MAX_STEPS" not in capsys.readouterr().out
