"""Secrets are found by name, by shape and by randomness; ordinary words stay."""

import pytest

from telic.studies.launch.command import (
    REDACTED,
    has_secret,
    is_secret_name,
    redact_environment,
    redact_text,
)

RANDOM = "q7Rk2LpZx9TfW4bN8sVd3HyJ"


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "GITHUB_TOKEN",
        "DB_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "MY_AUTH",
        "SENTRY_DSN",
        "HF_TOKEN",
        "secret_key",
    ],
)
def test_names_that_hold_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "PWD", "OLDPWD", "AUTHOR", "KEYBOARD", "TOKENIZERS_PARALLELISM"]
)
def test_names_that_do_not(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1b2c3d4" * 4,
        "ghp_" + "Ab3dEf6h" * 4,
        "hf_" + "abcdEFGH" * 3,
        "AKIA" + "ABCD1234" * 2,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        RANDOM,
        "deadbeef" * 5,
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef",
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(secret):
    hidden = redact_text(f"url=https://x/{secret} more words")
    assert secret not in hidden and REDACTED in hidden and hidden.startswith("url=https://x/")


def test_a_password_in_an_address_is_hidden():
    assert redact_text("http://ada:pw@host:80/x") == f"http://{REDACTED}@host:80/x"


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/lib/python3.11/site-packages/gymnasium/envs/mujoco",
        "cuda:0",
        "train.reward.terms.tracking_velocity.weight=1.25",
        "HalfCheetah-v5",
        "/data/.telic/tasks/walk/studies/first/runs/r-20260722T101500Z-k3f9qa/artefacts",
        "en_GB.UTF-8",
        "Mozilla/5.0 compatible",
    ],
)
def test_ordinary_text_stays(text):
    assert redact_text(text) == text and not has_secret(text)


def test_a_digest_is_hidden_in_an_environment_but_allowed_in_a_command():
    assert redact_text("e" * 40 + "1") == REDACTED
    assert not has_secret("--weights-sha=" + "ab12" * 16)
    assert has_secret(f"--key={RANDOM}")


def test_an_environment_is_sorted_and_hides_named_secrets_of_any_shape():
    assert redact_environment({"Z": "1", "MY_TOKEN": "short", "A": f"x {RANDOM}"}) == {
        "A": f"x {REDACTED}",
        "MY_TOKEN": REDACTED,
        "Z": "1",
    }
