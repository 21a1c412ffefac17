"""A key in the environment is nowhere in what sessions write and say, whatever goes wrong."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.errors import RewardError, TelicError
from telic.llm import Outage
from telic.llm.keys import KEY_NAMES, REMOVED
from tests.authors.scripts import REWARD
from tests.llm.test_hosted import server  # noqa: F401
from tests.session.quick import FAILING, PASSING

KEY = "sk-planted/0123456789+abcdef"


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    for names in KEY_NAMES.values():
        for name in names:
            monkeypatch.setenv(name, KEY)


def spoken(asking) -> str:
    """Return all emitted events."""
    return json.dumps(asking.events, default=str, ensure_ascii=False)


def assert_nowhere(folder: Path, *texts: str) -> None:
    """Look for the key, as it is and as part of an address, in every byte."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert files
    contents = [(str(each), each.read_bytes()) for each in files]
    contents += [("what was said", text.encode()) for text in texts]
    for name, content in contents:
        for form in (KEY, quote(KEY, safe=""), json.dumps(KEY)[1:-1]):
            assert form.encode() not in content, f"the key is in {name}"


def revealing(script):
    """Return a model that puts the key into every answer it gives."""

    def answer(request):
        made = dict(script[request.role])
        for name in ("reasoning", "story", "ambiguous"):
            if name in made:
                made[name] = [f"the key is {KEY}"] if name == "ambiguous" else f"key {KEY}"
        if "diagnosis" in made:
            made |= {"change": f"use {KEY}", "diagnosis": KEY}
        if "source" in made:
            made["source"] = f"{made['source']}\n# {KEY}\n"
        return made

    return answer


def test_a_model_that_repeats_the_key_cannot_get_it_written(asking):
    session, asked = asking.run(revealing(FAILING), iterations=2)
    assert len(asked) == 6 and session.summary.iterations == 2
    assert_nowhere(asking.runs_dir, spoken(asking))
    assert REMOVED in (session.path / "iter_1" / "reward_fn.py").read_text()  # it was there


def raising(error):
    def answer(request):
        raise error

    return answer


ERRORS = [
    ConnectionError(f"401 for Bearer {KEY}"),
    Outage(f"try https://host/?key={quote(KEY, safe='')} later"),
    RuntimeError(f"bug with {KEY}"),
    TelicError(f"no {KEY}", hint=f"use another key than {KEY}"),
]


@pytest.mark.parametrize(
    ("error", "debug"), list(zip(ERRORS, ([], ["--debug"], ["--json"], ["--debug"]), strict=True))
)
def test_errors_of_a_provider_lose_the_key(asking, error, debug):
    asking.connect(raising(error))
    request = ["run", "run", "--model", "scripted", "--runs-dir", str(asking.runs_dir), *debug]
    done = CliRunner().invoke(app, request)
    assert done.exit_code != 0
    printed = [done.output, str(done.exception), repr(done.exception)]
    cause = done.exception
    while cause is not None:
        printed.append(repr(cause))
        cause = cause.__cause__ or cause.__context__
    assert_nowhere(asking.runs_dir, *printed)


@pytest.mark.long
@pytest.mark.parametrize("status", [401, 500])
def test_real_provider_and_command_reveal_no_key(server, tmp_path, status):  # noqa: F811
    """The server sends the key back, as some do; the command shows its traceback."""
    printed = {"error": {"message": f"not with Bearer {KEY}", "type": "x", "code": "y"}}
    server.answers = [(status, {"retry-after": "3600"}, printed) for _ in range(20)]
    done = subprocess.run(
        [sys.executable, "-m", "telic", "run", "run", "--model", server.model, "--debug"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    _, headers, _ = server.seen[0]
    assert any(KEY in value for value in headers.values())  # it was sent, and came back
    assert done.returncode != 0 and "Traceback" in done.stderr
    assert_nowhere(tmp_path, done.stdout, done.stderr)
    assert REMOVED in done.stderr


NOSY = f"import os\n{REWARD['source']}\nKEY = os.environ['ANTHROPIC_API_KEY']\n"


@pytest.mark.slow
def test_outage_during_a_session_reveals_no_key(asking):
    def watch(request):
        raise Outage(f"no eyes for {KEY}", may_be_paid=True)

    def answer(request):
        script = {**PASSING, "analyst": ConnectionError("reset")}
        return watch(request) if request.role == "vision_criteria" else script[request.role]

    session, _ = asking.run(answer, vision=True)
    assert session.summary.outcome == "unproven"
    assert_nowhere(asking.runs_dir, spoken(asking))
    assert REMOVED in (session.path / "iter_1" / "judgment.json").read_text()


def test_a_reward_that_reads_the_environment_is_refused(asking):
    with pytest.raises(RewardError, match="os") as error:
        asking.run({**PASSING, "reward_author": {**REWARD, "source": NOSY}})
    assert_nowhere(asking.runs_dir, spoken(asking), str(error.value))
