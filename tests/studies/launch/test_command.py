"""Commands are filled in exactly; by default a run has no shell, no network and no keys."""

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
    redact_text,
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


def test_placeholders_are_filled_inside_words_and_nothing_is_invented():
    found = build(["python", "t.py", "seed={seed}", "{run_dir}/log"])
    assert found.argv == ("python", "t.py", "seed=7", "/runs/r1/log")
    for argv, why in (
        (["python", "{steps}"], r"placeholder \{steps\} has no value"),
        (["python", "x{overrides}"], "not a separate word"),
    ):
        with pytest.raises(InvalidDocument, match=why):
            build(argv)
    with pytest.raises(InvalidDocument, match="outside"):
        build(["python"], cwd="../elsewhere")


def test_overrides_and_seeds_are_written_as_the_repository_reads_them():
    given = values(overrides={"name": "x y", "a.b": 0.5, "on": True})
    for style, words in (
        ("k=v", ["a.b=0.5", "name=x y", "on=true"]),
        ("--k v", ["--a.b", "0.5", "--name", "x y", "--on", "true"]),
        ("--k=v", ["--a.b=0.5", "--name=x y", "--on=true"]),
        ("file", ["/runs/r1/overrides.json"]),
    ):
        config = {"system": "custom", "override_style": style}
        found = build(["python", "t.py", "{overrides}", "--seed", "{seed}"], given, config=config)
        assert list(found.argv[2:-2]) == words
    config = {"system": "custom", "override_style": "source_edit"}
    assert build(["python", "t.py", "{seed}"], config=config).argv[-1] == "7"
    with pytest.raises(InvalidDocument, match="changed in its source"):
        build(["python", "t.py", "{seed}"], values(overrides={"a": 1}), config=config)
    for flag, words in (
        ("--seed", ("--seed", "7")),
        ("--seed=", ("--seed=7",)),
        ("seed", ("seed=7",)),
    ):
        found = build(["python", "t.py"], seeds={"flag": flag, "controllable": True})
        assert found.argv[2:] == words, "a seed that the command does not place goes last"


# ---------------------------------------------------------------------------- secrets

SECRET_NAMES = (
    *("WANDB_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_AUTH"),
    *("SENTRY_DSN", "secret_key"),
)
PLAIN_NAMES = ("PATH", "PWD", "OLDPWD", "AUTHOR", "KEYBOARD", "TOKENIZERS_PARALLELISM")
KEYS = (
    "sk-" + "a1b2c3d4" * 4,
    "ghp_" + "Ab3dEf6h" * 4,
    "hf_" + "abcdEFGH" * 3,
    "AKIA" + "ABCD1234" * 2,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef",
    "q7Rk2LpZx9TfW4bN8sVd3HyJ",
)
ORDINARY = (
    "/usr/local/lib/python3.11/site-packages/gymnasium/envs/mujoco",
    "train.reward.terms.tracking_velocity.weight=1.25",
    "/data/.telic/tasks/walk/studies/first/runs/r-20260722T101500Z-k3f9qa/artifacts",
    "--weights-sha=" + "ab12" * 16,
)


def test_secrets_are_known_by_their_names_and_forms():
    assert all(map(is_secret_name, SECRET_NAMES)) and not any(map(is_secret_name, PLAIN_NAMES))
    for secret in KEYS:
        hidden = redact_text(f"url=https://x/{secret} more words")
        assert secret not in hidden and hidden.startswith(f"url=https://x/{REDACTED}")
        assert shell_problems((f"--key={secret}",))
    for text in ORDINARY:
        assert redact_text(text) == text and not shell_problems((text,))
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


def test_without_approval_all_tools_are_set_offline():
    found = environment(own={"TELIC_RUN": "r-1"})
    assert found.is_offline and found.variables.items() >= OFFLINE.items()
    assert found.variables["https_proxy"] == found.variables["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert found.withheld == ("WANDB_API_KEY",) and "WANDB_API_KEY" not in found.variables
    assert found.variables["HOME"] == "/home/ada" and found.variables["TELIC_RUN"] == "r-1"
    assert "HOME" not in found.changed and found.problems == ()
    found = environment(offline_choices={"WANDB_MODE": "offline", "WANDB_DIR": "logs"})
    assert found.variables["WANDB_MODE"] == "offline" and found.variables["WANDB_DIR"] == "logs"
    for name, value in (("WANDB_MODE", "online"), ("https_proxy", "http://proxy")):
        found = environment(declared={name: value})
        assert found.problems == (f"{name}={value} would enable the network",)
        assert found.variables[name] == OFFLINE[name]


def test_with_approval_the_environment_is_the_callers():
    found = environment(network_approved=True, declared={"A": "1"})
    assert not found.is_offline and found.variables == {**BASE, "A": "1"}
    assert found.changed == {"A": "1"}
