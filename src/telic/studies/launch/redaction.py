"""Keep secrets out of what is written: found by their name, their shape or their randomness."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

REDACTED = "[redacted]"

_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?|AUTH|COOKIE|DSN|WEBHOOK)(?:_|$)|(?:KEY|TOKEN|SECRET|PWD)$",
    re.IGNORECASE,
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "GPG_AGENT_INFO"})
_SHAPES = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}"  # model providers
    r"|(?:ghp|gho|ghs|ghu|github_pat|glpat|hf|xox[abprs])[-_][A-Za-z0-9_-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"  # signed web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # name and password in an address
)
# Paths and dotted or dashed names are judged piece by piece, or every long path would be hidden.
_PIECE = re.compile(r"[A-Za-z0-9+]{20,}")
_LEAST_BITS = 4.0  # per character; a hexadecimal digest has at most 4.0, English words about 3.5
_LEAST_HEX = 32
_HEX = re.compile(r"[0-9a-fA-F]+")


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name usually holds a secret."""
    return name.upper() not in _NOT_SECRET and _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Return the text with everything replaced that looks like a key, a token or a password."""
    return _PIECE.sub(
        lambda found: REDACTED if _is_mixed(found[0]) or _is_digest(found[0]) else found[0],
        redact_keys(text),
    )


def redact_keys(text: str) -> str:
    """Return the text without keys of a known shape; digests and code stay as they are."""
    return _SHAPES.sub(REDACTED, text)


def redact_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, sorted, with secrets replaced."""
    return {
        name: REDACTED if is_secret_name(name) else redact_text(environment[name])
        for name in sorted(environment)
    }


def has_secret(text: str) -> bool:
    """Return whether the text holds a key or a token; digests do not count."""
    return _SHAPES.search(text) is not None or any(map(_is_mixed, _PIECE.findall(text)))


def _is_digest(piece: str) -> bool:
    # Many keys look like the digest of a file; hiding one too many costs less than showing a key.
    return len(piece) >= _LEAST_HEX and _HEX.fullmatch(piece) is not None


def _is_mixed(piece: str) -> bool:
    """Return whether a piece looks drawn at random: many kinds of characters, evenly used."""
    kinds = sum(bool(re.search(kind, piece)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return kinds == 3 and _bits_per_character(piece) >= _LEAST_BITS


def _bits_per_character(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())
