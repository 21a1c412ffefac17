import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from telic.errors import MissingExtra, UsageError
from telic.llm import (
    Budget,
    Cancelled,
    Image,
    Models,
    ModelUnavailable,
    RequestRejected,
    Tokens,
    choose,
)
from telic.llm._hosted import translate
from telic.llm.names import parse_name

from .conftest import FAST, GOOD, question

KEY = "sk-planted-key-0123456789"


def completion(text, finish="stop"):
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    }


class Server(ThreadingHTTPServer):
    """OpenAI-compatible server with scripted replies."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = []
        self.seen = []
        self.release = threading.Event()
        """set: the server answers; cleared: it lets its callers wait"""
        self.release.set()

    @property
    def model(self):
        return f"openai-compatible:http://127.0.0.1:{self.server_port}/v1#tiny"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, dict(self.headers), body))
        self.server.release.wait()
        status, headers, answer = self.server.answers.pop(0)
        content = json.dumps(answer).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up, as it should

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("pydantic_ai", reason="needs the extra llm: pydantic-ai is not installed")
    monkeypatch.setenv("NO_PROXY", "*")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_real_server_answers_with_tokens_schema_and_pictures(server, models):
    server.answers = [(200, {}, completion(GOOD.model_dump_json()))]
    picture = Image(data=b"\x89PNG", media_type="image/png")
    request = question(system="Be brief.", images=(picture,), max_tokens=99, effort="low")
    reply = models(choose(server.model), budget=Budget(usd=1.0)).ask(request)
    assert reply.answer == GOOD
    assert reply.tokens == Tokens(input=11, output=7, reasoning=2, cached=3)
    assert reply.price_usd is None, "nobody knows the price of a server of one's own"
    path, _, body = server.seen[0]
    assert path == "/v1/chat/completions" and body["model"] == "tiny"
    text = json.dumps(body)
    assert "Be brief." in text and "How?" in text and "data:image/png;base64," in text
    assert body["response_format"]["type"] == "json_schema"
    assert 99 in (body.get("max_completion_tokens"), body.get("max_tokens"))


def test_failures_of_a_real_server_are_distinguished(server, models, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    busy = (429, {"Retry-After": "0"}, {"error": {"message": "slow down"}})
    good = (200, {}, completion(GOOD.model_dump_json()))
    server.answers = [busy, (503, {}, {"error": {"message": "overloaded"}}), good]
    assert models(choose(server.model)).ask(question()).attempts == 3
    assert server.seen[0][1]["authorization"] == f"Bearer {KEY}"

    server.answers = [(401, {}, {"error": {"message": f"bad key {KEY}"}})]
    with pytest.raises(RequestRejected, match="OPENAI_COMPATIBLE_API_KEY") as caught:
        models(choose(server.model)).ask(question("two"))
    assert KEY not in str(caught.value) and KEY not in repr(caught.value.__context__)

    server.answers = [(404, {}, {"error": {"message": "no such model"}})]
    with pytest.raises(RequestRejected, match="no such model"):
        models(choose(server.model)).ask(question("three"))

    nonsense = (200, {}, completion("Once upon a time", finish="length"))
    server.answers = [nonsense, good]
    assert models(choose(server.model)).ask(question("four")).attempts == 2
    assert "truncated" in json.dumps(server.seen[-1][2])
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*.json"))
    assert KEY.encode() not in written


def test_a_real_call_stops_before_its_answer(server, tmp_path):
    models = Models(choose(server.model), tmp_path, limits=FAST)
    server.answers = [(200, {}, completion(GOOD.model_dump_json()))] * 2
    models.ask(question("warm up"))
    server.release.clear()
    before = len(server.seen)
    models = Models(
        choose(server.model), tmp_path, limits=FAST, should_stop=lambda: len(server.seen) > before
    )
    with pytest.raises(Cancelled):
        models.ask(question())


ARGUMENTS = GOOD.model_dump()
CLOUDS = {
    "anthropic:claude-sonnet-5-5": (
        "ANTHROPIC_API_KEY",
        {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [{"type": "tool_use", "id": "t", "name": "answer", "input": ARGUMENTS}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 11, "output_tokens": 7},
        },
    ),
    "gpt-5": (
        "OPENAI_API_KEY",
        {
            "id": "1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5",
            "status": "completed",
            "output": [
                {
                    "type": "function_call",
                    "id": "f",
                    "call_id": "c",
                    "name": "answer",
                    "arguments": json.dumps(ARGUMENTS),
                    "status": "completed",
                }
            ],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 11,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 18,
            },
        },
    ),
    "gemini-2.5-pro": (
        "GEMINI_API_KEY",
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"functionCall": {"name": "answer", "args": ARGUMENTS}}],
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {
                "promptTokenCount": 11,
                "candidatesTokenCount": 7,
                "totalTokenCount": 18,
            },
            "modelVersion": "gemini-2.5-pro",
        },
    ),
}


@pytest.mark.parametrize("effort", [None, "high"])
@pytest.mark.parametrize("model", CLOUDS)
def test_each_service_is_spoken_to_in_its_own_language(server, models, monkeypatch, model, effort):
    variable, answer = CLOUDS[model]
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)
    server.answers = [(200, {}, answer), (529, {}, {"error": {"message": KEY}})]
    picture = Image(data=b"\x89PNG")
    path = models(choose(model), budget=Budget(usd=5.0), limits=FAST.replace(attempts=1))
    reply = path.ask(question(images=(picture,), system="Be brief.", effort=effort))
    assert reply.answer == GOOD
    assert (reply.tokens.input, reply.tokens.output) == (11, 7)
    assert reply.price_usd is not None and 0 < reply.price_usd < 0.01
    assert path.budget.spent.usd == reply.price_usd
    text = json.dumps(server.seen[0][2])
    assert "How?" in text and "Be brief." in text and "iVBO" in text and "weights" in text
    assert ("high" in text or "budget" in text.lower()) == (effort is not None)
    with pytest.raises(ModelUnavailable) as caught:
        path.ask(question("two"))
    assert KEY not in str(caught.value) and len(server.seen) == 2


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("anthropic:claude-sonnet-5-5", "ANTHROPIC"), ("gpt-5", "OPENAI"), ("gemini-x", "GOOGLE")],
)
def test_without_a_key_nothing_is_sent_and_the_variable_is_named(models, provider, variable):
    pytest.importorskip("pydantic_ai", reason="needs the extra llm: pydantic-ai is not installed")
    with pytest.raises(UsageError, match=f"{variable}_API_KEY"):
        models(choose(provider)).ask(question())


def test_a_missing_package_is_named_with_its_install_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'telic\[llm\]'"):
        choose("claude-x")


@pytest.mark.parametrize(
    ("phase", "is_paid"), [("read", True), ("write", True), ("connect", False), (None, False)]
)
def test_a_call_that_is_lost_after_it_was_sent_may_have_to_be_paid(phase, is_paid):
    theirs = pytest.importorskip("pydantic_ai.exceptions", reason="needs the extra llm")
    error = theirs.ModelConnectionError("gpt-5", "gone", phase=phase)
    assert translate(error, parse_name("gpt-5")).may_be_paid == is_paid
