import pytest

from telic.errors import UnknownName, UsageError
from telic.llm import choose
from telic.llm.names import parse_name


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("anthropic:claude-x", ("anthropic", "claude-x", None)),
        ("claude-x", ("anthropic", "claude-x", None)),
        ("gpt-5", ("openai", "gpt-5", None)),
        ("o3-mini", ("openai", "o3-mini", None)),
        ("gemini-2.5-pro", ("google", "gemini-2.5-pro", None)),
        ("openrouter:qwen/qwen3", ("openrouter", "qwen/qwen3", None)),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b", "http://127.0.0.1:11434/v1")),
        ("lmstudio:phi", ("lmstudio", "phi", "http://127.0.0.1:1234/v1")),
        ("vllm:http://gpu:8000/Qwen/Qwen3", ("vllm", "Qwen/Qwen3", "http://gpu:8000/v1")),
        ("vllm:http://gpu:8000/v1/Qwen/Qwen3", ("vllm", "Qwen/Qwen3", "http://gpu:8000/v1")),
        ("vllm:https://gpu/v1/#m", ("vllm", "m", "https://gpu/v1")),
        (
            "openai-compatible:http://127.0.0.1:8080/v1#m",
            ("openai-compatible", "m", "http://127.0.0.1:8080/v1"),
        ),
    ],
)
def test_names_lead_to_addresses_and_back(name, address):
    found = parse_name(name)
    assert tuple(found) == address
    assert parse_name(found.name) == found


def test_an_unknown_provider_gets_the_closest_names():
    with pytest.raises(UnknownName, match=r'"antropic".*Closest: anthropic'):
        choose("antropic:claude-x")
    with pytest.raises(UnknownName, match="claude"):
        choose("cluade")
    with pytest.raises(UnknownName, match="ollama:qwen3:8b"):
        choose("qwen3:8b")


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:",
        "openai-compatible:model",
        "openai-compatible:http://127.0.0.1/v1",
        "vllm:http://gpu:8000/v1",
        "openai:http://127.0.0.1/v1#m",
        "vllm:ftp://gpu/m",
    ],
)
def test_what_names_no_model_is_refused(name):
    with pytest.raises(UsageError):
        choose(name)


@pytest.mark.parametrize("part", ["user:sesame@host/v1#m", "host/v1?key=sesame#m"])
def test_an_address_may_not_hold_a_password(part):
    with pytest.raises(UsageError, match="stored in files") as caught:
        choose(f"openai-compatible:https://{part}")
    assert "sesame" not in str(caught.value)
