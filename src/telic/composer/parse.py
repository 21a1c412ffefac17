"""Parse an intent: text → tokens → marks → clauses → frames, and an account of every word.

Deterministic, and it never fails: what it cannot read it lists. The words it knows are in
`tables/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from telic.composer.clauses import cut
from telic.composer.frames import Frame, LimitKind, Parsed
from telic.composer.outline import Outline
from telic.composer.scan import parts_at, scan
from telic.composer.slots import fill
from telic.composer.tokens import Token, read_tokens, readable
from telic.composer.words import corrected, ignored_phrases, ignored_words
from telic.envs.spec import EnvSpec


def parse(intent: str, spec: EnvSpec) -> Parsed:
    """Return what an intent asks of the robot of an environment.

    Nothing understood gives no frames, and every word in `not_understood`.
    """
    names = _names(spec)
    tokens = corrected(read_tokens(intent), (*spec.body_names, *names))
    clauses = cut(scan(tokens, parts_at(tokens, spec)))
    has_pole = spec.robot is not None and bool(spec.robot.poles)
    outline = Outline(tokens, clauses.joints, ignored_words() | names, has_pole)
    outline.read(clauses.groups)
    frames = _frames(outline)
    return _account(intent, tokens, frames, outline, ignored_words() | names)


def _frames(outline: Outline) -> tuple[Frame, ...]:
    frames = []
    for sketch in outline.sketches:
        filled = fill(sketch)
        frames.append(filled.frame)
        outline.used |= filled.used
        for mark in filled.in_place:
            outline.add_limit(LimitKind.NO_DRIFT, mark.at)
    return tuple(frames)


def _account(
    intent: str,
    tokens: Sequence[Token],
    frames: tuple[Frame, ...],
    outline: Outline,
    ignored: frozenset[str],
) -> Parsed:
    """Sort every word into used, ignored or not understood; without a frame nothing was."""
    used = outline.used if frames else set()
    left_out = _ignored(tokens, ignored) - used if frames else set()
    words = [(place, token.text) for place, token in enumerate(tokens) if not token.silent]
    known = used | left_out
    return Parsed(
        intent=readable(intent),
        frames=frames,
        limits=tuple(outline.limits),
        used=tuple(text for place, text in words if place in used),
        ignored=tuple(text for place, text in words if place in left_out),
        not_understood=tuple(text for place, text in words if place not in known),
    )


def _ignored(tokens: Sequence[Token], words: frozenset[str]) -> set[int]:
    """Return the places of words left out on purpose."""
    places = {place for place, token in enumerate(tokens) if token.word in words}
    for place in range(len(tokens)):
        phrase = ignored_phrases().find(tokens, place)
        places.update(phrase.at if phrase else ())
    return places


def _names(spec: EnvSpec) -> frozenset[str]:
    """Return the words of the environment's own name: addressing it says nothing to do."""
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    return frozenset(word.lower() for word in (*pieces, "".join(pieces), spec.id))
