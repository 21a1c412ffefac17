"""Fill Markdown templates, and name their versions."""

from __future__ import annotations

from telic.errors import UsageError
from telic.llm.records import fingerprint

_OPEN, _CLOSE = "{{", "}}"
_HASH_LENGTH = 12


def prompt_hash(template: str) -> str:
    """Return the version of a template: the start of its SHA-256."""
    return fingerprint(template, _HASH_LENGTH)


def render(template: str, **values: object) -> str:
    """Return the template with every `{{name}}` replaced by its value.

    Values are inserted as they are: placeholders inside a value stay text. Raises UsageError for a
    name without a value and for a value without a place.
    """
    first, *rest = template.split(_OPEN)
    parts, used = [first], set()
    for piece in rest:
        inside, closed, after = piece.partition(_CLOSE)
        name = inside.strip()
        if not closed or not name.isidentifier():
            raise UsageError(
                f'"{_OPEN}{inside[:40]}" in a template is not a placeholder.',
                hint="Write {{name}}, with a name of letters, digits and underscores.",
            )
        if name not in values:
            raise UsageError(
                f"The template needs a value for {{{{{name}}}}}, and none was given.",
                hint=f"Given: {', '.join(sorted(values)) or 'nothing'}.",
            )
        used.add(name)
        parts += [str(values[name]), after]
    if unused := sorted(set(values) - used):
        raise UsageError(f"The template has no place for: {', '.join(unused)}.")
    return "".join(parts)
