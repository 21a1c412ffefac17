"""The command: JSON and nothing else, errors in a paragraph, work orders for the model."""

import json
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.verbs.search import search

CARTPOLE = ["search", "--env", "CartPole-v1"]


def telic(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_json_is_one_document(tmp_path):
    words = (*CARTPOLE, "--method", "cma", "--episodes", 100, "--runs-dir", tmp_path, "--json")
    found = json.loads(telic(*words, "--fresh-episodes", 3))
    assert found["model"] == "no language model used" and len(found["runs"]) == 1
    shown = json.loads(telic("show", "--runs-dir", tmp_path, "--json"))
    assert shown["runs"][0]["best"] == found["runs"][0]["best"]
    page = json.loads(telic("report", "--runs-dir", tmp_path, "--json"))["page"]
    assert "CartPole-v1" in Path(page).read_text()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["search"], "Missing option '--env'"),
        (["search", "--env", "CartPol-v1"], "Closest: CartPole-v1"),
        ([*CARTPOLE, "--method", "r2p"], "Closest: r2po"),
        ([*CARTPOLE, "--switch", "evidence=all"], "evidence"),
        ([*CARTPOLE, "--switch", "evidence"], "name=value"),
        ([*CARTPOLE, "--policy", "deep"], "No policy named"),
        ([*CARTPOLE, "--episodes", "3"], "too small: one iteration"),
        ([*CARTPOLE, "--method", "cma", "--episodes", "30"], "10 candidates of 5 episodes"),
        (
            [*CARTPOLE, "--method", "hybrid", "--model", "host", "--episodes", "60"],
            "10 candidates of 20 episodes",
        ),
    ],
)
def test_a_mistake_gets_a_paragraph(words, complaint, tmp_path):
    runner = CliRunner()
    result = runner.invoke(app, [*words, "--runs-dir", str(tmp_path)])
    assert result.exit_code == 2, result.output
    assert complaint in result.output + (result.stderr if result.stderr_bytes else "")


def test_answering_work_orders_drives_the_search(tmp_path):
    """An iteration of R2PO by hand, each answer of which is refused first."""
    outcome = {}

    def work():
        outcome["found"] = search(
            "CartPole-v1",
            method="r2po",
            model="host",
            episodes=8,
            runs_dir=tmp_path,
            fresh_episodes=2,
            switches={"rollouts": 2, "confirm": 0},
        )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    answered: dict[str, str] = {}
    deadline = time.monotonic() + 240
    while thread.is_alive() and time.monotonic() < deadline:
        folders = list(tmp_path.glob("*/orders"))
        lines = json.loads(telic("orders", "--runs-dir", tmp_path, "--json")) if folders else []
        for line in lines:
            if line["state"] == "open" and line["key"] not in answered:
                answered[line["key"]] = line["role"]
                _answer(tmp_path, line["key"], len(answered))
        time.sleep(0.05)
    thread.join(60)
    summary = outcome["found"].summary
    assert summary.runs[0].calls == len(answered) == 2
    assert sorted(answered.values()) == ["critic", "search"]
    assert summary.model == "host"


def _answer(runs_dir, key, number):
    order = json.loads(telic("orders", key, "--runs-dir", runs_dir, "--json"))
    assert "params" in json.dumps(order["answer_schema"])
    short = runs_dir / "short.json"
    short.write_text(json.dumps({"params": [1, 2], "explanation": "too few"}))
    refused = CliRunner().invoke(app, ["orders", key, str(short), "--runs-dir", str(runs_dir)])
    assert refused.exit_code == 2
    file = runs_dir / "answer.json"
    file.write_text(
        json.dumps({"params": [0, 0, 0, 0, -6, 6, -2, 2, 0, number], "explanation": "lean"})
    )
    telic("orders", key, file, "--runs-dir", runs_dir)


def test_people_get_tables(tmp_path):
    words = (*CARTPOLE, "--method", "cma", "--episodes", 100, "--runs-dir", tmp_path)
    assert "no language model used" in telic(*words, "--fresh-episodes", 3)
    assert "Pong-v0" in telic("envs", "--search")
    assert "r2po" in telic("envs", "--search", "--presets")
