import ast
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest

import telic.llm
from telic.core.events import encode_event
from telic.errors import TelicError, UsageError
from telic.llm import Host, Outage, RawReply, keys
from telic.llm.keys import redact
from telic.llm.work_orders import publish
from telic.storage.files import JsonLines
from telic.testing.models import Scripted
from tests.llm.conftest import GOOD

from .conftest import Plan, question

KEY = "sk-ant-planted/KEY+0123456789"


@pytest.fixture(autouse=True)
def _planted(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def everything_written(folder):
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


def everything_printed(error):
    text = "".join(traceback.format_exception(error)) + repr(error) + str(error)
    return text + repr(error.__context__) + repr(error.__cause__) + repr(vars(error))


class Leaky(Scripted):
    """Raises errors that hold the key, in all the ways in which libraries do."""

    def __init__(self, error):
        super().__init__([])
        self.error = error

    async def complete(self, request, deadline_s):
        try:
            raise ValueError(f"header x-api-key: {KEY}")
        except ValueError as cause:
            raise self.error from cause


ERRORS = [
    Outage(f"401 for key {KEY}", hint=f"not {KEY}"),
    ConnectionError(f"https://example.com/?key={quote(KEY, safe='')}"),
    RuntimeError(f"unexpected {KEY}"),
    TelicError(f"ours {KEY}", hint=f"try {KEY}"),
    UsageError(f"usage {KEY}"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_a_key_in_an_error_reaches_nothing(models, tmp_path, error):
    provider = Leaky(error)
    with JsonLines(tmp_path / "events.jsonl") as log:
        path = models(provider, on_event=lambda event: log.append(encode_event(event)))
        with pytest.raises(TelicError) as caught:
            path.ask(question(f"My key is {KEY}."))
    written = everything_written(tmp_path)
    assert b"model.failed" in written and b"[key removed]" in written
    for text in (written.decode(), everything_printed(caught.value), repr(provider), repr(path)):
        assert KEY not in text and quote(KEY, safe="") not in text


def test_a_key_that_a_model_repeats_is_removed_from_answers_files_and_recordings(models, tmp_path):
    leak = RawReply(text=Plan(title=f"use {KEY}").model_dump_json())
    path = models(Scripted([leak]))
    assert path.ask(question()).answer.title == "use [key removed]"
    assert KEY.encode() not in everything_written(tmp_path)


def test_a_key_that_starts_another_is_removed_with_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "-and-more")
    assert redact(f"{KEY}-and-more") == "[key removed]"


def test_a_missing_key_says_which_variable_to_set():
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        keys.find_key("openai")
    with pytest.raises(UsageError, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        keys.find_key("google")
    assert keys.find_key("ollama") is None


def test_only_the_one_exit_writes_files():
    writers = {"write_json", "write_text", "write_bytes", "replacing", "JsonLines"}
    source = Path(telic.llm.__file__).parent
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if path.name != "keys.py":
            assert not (named | called) & (writers | {"open"}), path


def test_a_key_that_is_not_in_the_environment_is_read_from_the_keyring(monkeypatch):
    keyring = pytest.importorskip("keyring")
    stored = {("telic", "anthropic"): "sk-ant-from-the-keyring"}

    class Memory(keyring.backend.KeyringBackend):
        priority = 1

        def get_password(self, service, username):
            return stored.pop((service, username), None)

        def set_password(self, service, username, password):
            raise AssertionError("keys are never stored")

    monkeypatch.setattr(keyring.core, "_keyring_backend", Memory())
    assert keys.find_key("anthropic") == KEY and stored
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert keys.find_key("anthropic") == "sk-ant-from-the-keyring"
    assert redact("sent sk-ant-from-the-keyring") == f"sent {keys.REMOVED}"
    with pytest.raises(UsageError):
        keys.find_key("anthropic")


def test_a_key_in_a_prompt_does_not_reach_a_work_order(tmp_path):
    publish(tmp_path, "k", question(f"Use {KEY}", system=KEY))
    assert KEY.encode() not in everything_written(tmp_path)


def test_a_key_is_removed_after_the_environment_has_changed(monkeypatch):
    assert keys.find_key("anthropic") == KEY
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert redact(f"a {KEY} b") == "a [key removed] b"


def test_a_host_answer_with_a_key_is_not_returned(models, tmp_path):
    request = question()
    orders = tmp_path / "orders"
    key = request.key("host")
    publish(orders, key, request)
    (orders / f"{key}.answer.json").write_text(GOOD.model_dump_json().replace("run", KEY))
    assert models(Host(orders)).ask(request).answer.title == "[key removed]"
