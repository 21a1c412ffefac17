"""Commands are filled in exactly; a run has no shell, no network and no keys of its own accord."""

import os
from pathlib import Path

import pytest

from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.errors import InvalidDocument
from telic.studies.launch.command import (
    OFFLINE,
    REDACTED,
    Values,
    build_command,
    is_secret_name,
    redact_environment,
    redact_keys,
    run_environment,
    shell_problems,
)
from tests.studies.launch.toy_study import ADAPTER


def adapter(**changes):
    return Adapter.parse({**ADAPTER, **changes})


def values(**changes):
    return Values(seed=7, run_dir=Path("/runs/r1"), overrides={})._replace(**changes)


def build(argv, values=values(), tmp=Path("/repo"), **spec):  # noqa: B008
    changes = {key: spec.pop(key) for key in ("config", "seeds") if key in spec}
    return build_command(adapter(**changes), CommandSpec(argv=tuple(argv), **spec), values, tmp)


def test_placeholders_are_filled_inside_words():
    found = build(["python", "t.py", "seed={seed}", "{run_dir}/log"])
    assert found.argv == ("python", "t.py", "seed=7", "/runs/r1/log")


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("k=v", ["a.b=0.5", "name=x y", "on=true"]),
        ("--k v", ["--a.b", "0.5", "--name", "x y", "--on", "true"]),
        ("--k=v", ["--a.b=0.5", "--name=x y", "--on=true"]),
        ("file", ["/runs/r1/overrides.json"]),
    ],
)
def test_overrides_are_written_as_the_repository_reads_them(style, words):
    given = values(overrides={"name": "x y", "a.b": 0.5, "on": True})
    config = {"system": "custom", "override_style": style}
    found = build(["python", "t.py", "{overrides}", "--seed", "{seed}"], given, config=config)
    assert list(found.argv[2:-2]) == words


def test_overrides_of_a_repository_that_has_none_are_refused():
    config = {"system": "custom", "override_style": "source_edit"}
    assert build(["python", "t.py", "{seed}"], config=config).argv[-1] == "7"
    with pytest.raises(InvalidDocument, match="changed in its source"):
        build(["python", "t.py", "{seed}"], values(overrides={"a": 1}), config=config)


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--seed", ("--seed", "7")), ("--seed=", ("--seed=7",)), ("seed", ("seed=7",))],
)
def test_a_seed_that_the_command_does_not_place_goes_last(flag, words):
    found = build(["python", "t.py"], seeds={"flag": flag, "controllable": True})
    assert found.argv[2:] == words


def test_what_is_not_known_is_not_invented():
    with pytest.raises(InvalidDocument, match=r"\{steps\} of the command has no value"):
        build(["python", "{steps}"])
    with pytest.raises(InvalidDocument, match="must stand alone"):
        build(["python", "x{overrides}"])


def test_a_folder_outside_of_the_repository_is_refused():
    with pytest.raises(InvalidDocument, match="outside"):
        build(["python"], cwd="../elsewhere")


def test_a_venv_is_entered_without_a_shell(tmp_path):
    found = build(["python"], tmp=tmp_path, activate={"kind": "venv", "path": ".venv"})
    assert found.env["VIRTUAL_ENV"] == str(tmp_path / ".venv")
    assert found.env["PATH"] == f"{tmp_path}/.venv/bin:{os.environ['PATH']}"


def test_what_hopes_for_a_shell_or_shows_a_secret_is_named():
    for argv in (
        ("bash", "-c", "x"),
        ("/bin/sh", "-ec", "x"),
        ("python", "a", "&&", "b"),
        ("python", "a", ">", "log"),
        ("python", "a\nb"),
        ("python", "--key=sk-" + "a1B2c3D4" * 4),
    ):
        assert shell_problems(argv), argv
    for words in (
        "python t.py ++a.b=${c.d}",
        "python t.py x=[1,2]",
        "bash run.sh",
        "python t.py a|b",
    ):
        assert shell_problems(tuple(words.split())) == [], words


# ---------------------------------------------------------------------------- secrets

SECRET_NAMES = (
    *("WANDB_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_AUTH"),
    *("SENTRY_DSN", "secret_key"),
)
PLAIN_NAMES = ("PATH", "PWD", "OLDPWD", "AUTHOR", "KEYBOARD", "TOKENIZERS_PARALLELISM")


def test_secrets_are_known_by_their_names():
    assert all(map(is_secret_name, SECRET_NAMES)) and not any(map(is_secret_name, PLAIN_NAMES))


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1b2c3d4" * 4,
        "ghp_" + "Ab3dEf6h" * 4,
        "hf_" + "abcdEFGH" * 3,
        "AKIA" + "ABCD1234" * 2,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef",
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(secret):
    hidden = redact_keys(f"url=https://x/{secret} more words")
    assert secret not in hidden and REDACTED in hidden and hidden.startswith("url=https://x/")
    assert shell_problems((f"--key={secret}",))


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/lib/python3.11/site-packages/gymnasium/envs/mujoco",
        "train.reward.terms.tracking_velocity.weight=1.25",
        "/data/.telic/tasks/walk/studies/first/runs/r-20260722T101500Z-k3f9qa/artefacts",
        "Mozilla/5.0 compatible",
    ],
)
def test_ordinary_text_stays(text):
    assert redact_keys(text) == text and not shell_problems((text,))


def test_an_environment_hides_named_secrets_of_any_shape_and_passwords_in_addresses():
    given = {"Z": "1", "MY_TOKEN": "short", "U": "http://ada:pw@host:80/x"}
    assert redact_environment(given) == {
        "MY_TOKEN": REDACTED,
        "U": f"http://{REDACTED}@host:80/x",
        "Z": "1",
    }


# ---------------------------------------------------------------------------- the network

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


@pytest.mark.parametrize("asked", [{"WANDB_MODE": "online"}, {"https_proxy": "http://proxy"}])
def test_a_command_that_asks_for_the_network_is_named_and_does_not_get_it(asked):
    found = environment(declared=asked)
    (name,) = asked
    assert found.problems == (f"{name}={asked[name]} would open the network",)
    assert found.variables[name] == OFFLINE[name]
