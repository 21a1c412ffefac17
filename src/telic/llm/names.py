"""Parse model names: `provider:model`, server URLs, and prefixes of known model families."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from telic.core.plugins import plugin_names
from telic.errors import UnknownName, UsageError

CLOUD = ("anthropic", "openai", "google", "openrouter")
SERVERS: Mapping[str, str] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
}
COMPATIBLE = "openai-compatible"
HOST = "host"
PROVIDERS = (*CLOUD, *SERVERS, COMPATIBLE, HOST)
_FAMILIES: Mapping[str, str] = {
    "claude": "anthropic",
    **dict.fromkeys(("gpt", "o1", "o3", "o4"), "openai"),
    "gemini": "google",
}
_SEE = "Use provider:model, e.g. anthropic:claude-sonnet-5-5, ollama:qwen3 or host."


class Address(NamedTuple):
    """Provider and model name, with the base URL of a self-hosted server."""

    provider: str
    model: str
    base_url: str | None = None

    @property
    def name(self) -> str:
        """Return the canonical name, which includes the URL of a self-hosted server."""
        server = "" if self.base_url is None else f"{self.base_url}#"
        return f"{self.provider}:{server}{self.model}"


def parse_name(name: str) -> Address:
    """Parse a model name to an address. Raises UnknownName or UsageError.

    Names:
        provider:model                           anthropic, openai, google, openrouter
        claude-… gpt-… o1… o3… o4… gemini-…      provider inferred from the prefix
        ollama:MODEL  vllm:MODEL  lmstudio:MODEL server at its default URL or *_BASE_URL
        vllm:http://HOST:PORT/MODEL              server at a given URL
        openai-compatible:http://HOST/v1#MODEL   any OpenAI-compatible server
    """
    provider, colon, model = name.strip().partition(":")
    family = next((each for start, each in _FAMILIES.items() if provider.startswith(start)), None)
    if not colon and family is not None:
        return Address(family, provider)
    if provider not in PROVIDERS or not colon:
        known = [*PROVIDERS, *plugin_names("providers", PROVIDERS)]
        known += [f"{start}-…" for start in ("claude", "gpt", "gemini")]
        error = UnknownName("model provider", provider, known)
        tag = f" For a model served by Ollama, use ollama:{name}." if colon else ""
        error.hint = f"{error.hint or ''} {_SEE}{tag}".strip()
        raise error
    if not model:
        raise UsageError(f'"{name}" does not contain the name of a model.', hint=_SEE)
    if "://" in model:
        return _server(provider, model)
    if provider in SERVERS:
        base = os.environ.get(f"{provider.upper()}_BASE_URL", SERVERS[provider])
        base = _checked(base).rstrip("/")
        return Address(provider, model, base if urlsplit(base).path else f"{base}/v1")
    if provider == COMPATIBLE:
        raise UsageError(
            f'"{name}" needs an address.', hint=f"Use {COMPATIBLE}:http://127.0.0.1:8080/v1#model."
        )
    return Address(provider, model)


def servers(*names: str | None) -> list[str]:
    """Return the models with a custom server address. Requests and API keys are sent there."""
    return [f"the model {name}" for name in names if name is not None and "://" in name]


def _server(provider: str, address: str) -> Address:
    if provider not in SERVERS and provider != COMPATIBLE:
        raise UsageError(
            f'{provider} has a fixed server address, and "{address}" is not a model name.',
            hint=f"For another server, use {COMPATIBLE}:{address}#model.",
        )
    url, hash_mark, model = _checked(address).partition("#")
    if not hash_mark and provider in SERVERS:
        # vllm:http://host:port/model: the URL path is the model name, optionally prefixed by /v1
        parts = urlsplit(url)
        model = parts.path.strip("/").removeprefix("v1/")
        url = f"{parts.scheme}://{parts.netloc}/v1"
    if not model or model == "v1":
        raise UsageError(
            f'"{address}" lacks a model name.', hint=f"Append it after #: {url}#model."
        )
    return Address(provider, model, url.rstrip("/"))


def _checked(url: str) -> str:
    """Return a valid URL. It must not contain credentials, since names are written to files."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("A server address must start with http:// or https:// and a host.")
    if "@" in parts.netloc or parts.query:
        raise UsageError(
            "Server addresses are stored in files and must not contain a password or query.",
            hint="Set the key as an environment variable, e.g. OPENAI_COMPATIBLE_API_KEY.",
        )
    return url
