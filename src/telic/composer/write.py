"""Turn drafts into files: a reward and a judge of exactly the form a model would write."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from telic.composer.draft import Draft, JudgePart, WeightedTerm
from telic.rewards import signals
from telic.rewards.composed import FINISH, STAGE
from telic.rewards.node import Expression, written

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_STAGES = {STAGE: 1.5, FINISH: 10.0}
_HIDDEN = frozenset({"strayed"})
"""memory that no policy sees: a robot cannot keep what only a simulation knows"""
_WIDTH = 100


def put_in_order(drafts: Sequence[Draft], always: Draft) -> None:
    """Name the parts by their phase, and add a gate from each phase to the next.

    Judged throughout is only what the phases do not all judge by themselves.
    """
    for draft in drafts[:-1]:
        if not any(end.seconds for end in draft.reached):
            # It goes on when something was done. To be paid for waiting is a reason not to do it.
            draft.terms = [term for term in draft.terms if term.name != "alive"]
    own = [{part.title for part in draft.parts} for draft in drafts]
    always.parts = [
        part for part in always.parts if not all(part.title in titles for titles in own)
    ]
    for index, draft in enumerate(drafts):
        name = ORDINALS[index]
        main = max(draft.parts, key=lambda part: part.weight)
        draft.parts = [replace(part, title=f"{name}: {part.title}") for part in draft.parts]
        draft.parts += _not_left_out(name, main)
        if index == len(drafts) - 1:
            break
        needed = round(0.4 * sum(each.seconds for each in drafts[index + 1 :]), 2)
        gate = JudgePart(
            f"{name}: is done with {needed:g} s left",
            None,
            zero=0.0,
            goal=needed,
            meaning="time left for what comes next",
            unit="s",
            weight=main.weight,
            tag=main.tag,
            is_gate=True,
        )
        draft.parts.append(gate)
    _weigh_alike(drafts)


def _not_left_out(name: str, main: JudgePart) -> list[JudgePart]:
    """Return a guard against who skips a phase and does the others well: that halves the score.

    What matters most in the phase is asked for a third of the way to its goal.
    """
    if main.is_about or main.is_guard:
        return []
    bit = 0.3 * (main.goal - main.zero)
    title = f"{name}: {main.title}, not left out"
    guard = replace(main, title=title, zero=main.zero - bit, goal=main.zero + bit, weight=0.0)
    return [replace(guard, is_guard=True, is_open=False, best=None)]


def _weigh_alike(drafts: Sequence[Draft]) -> None:
    """Let every phase count the same: the last one has no gate, and must not matter less."""
    weights = [sum(part.weight for part in draft.parts) for draft in drafts]
    for draft, weight in zip(drafts, weights, strict=True):
        scale = max(weights) / weight
        draft.parts = [replace(part, weight=round(scale * part.weight, 2)) for part in draft.parts]


def reward_file(intent: str, env: str, draft: Draft) -> str:
    """Return the text of a reward for one behaviour."""
    draft = replace(draft, reached=[])  # nothing comes after it
    memory = _memory(draft)
    seen = [name for name in memory if name not in _HIDDEN]
    seen_by = "" if not draft.is_seen else '"actor"' if len(seen) == len(memory) else _names(seen)
    lines = _terms("terms = {", draft.terms, "}")
    weights = {each.name: each.weight for each in draft.terms}
    return _reward(intent, env, weights, memory, seen_by, lines, _nodes([draft]))


def sequence_reward(intent: str, env: str, phases: Sequence[Draft], always: Draft) -> str:
    """Return the text of a reward for phases one after another."""
    memory: dict[str, int | None] = {"phase": None, "clock": None}
    weights: dict[str, float] = {}
    lines = ["phases = ("]
    for index, draft in enumerate(phases):
        suffix = f"_{index + 1}"
        memory |= {f"{name}{suffix}": width for name, width in _memory(draft).items()}
        own = [each._replace(name=each.name + suffix) for each in draft.terms]
        weights |= {each.name: each.weight for each in own}
        lines += ["    Phase(", f"        {written(_plain(', '.join(draft.words)))},"]
        lines += textwrap.indent("\n".join(_terms("{", own, "},")), "        ").splitlines()
        if index < len(phases) - 1:
            until = ", ".join(repr(each.reward) for each in draft.reached)
            lines += [f"        until=({until},),"] if until else []
            lines += [f"        seconds={_seconds(draft):g},"]
        lines.append("    ),")
    lines += [")", *_terms("terms = {", always.terms, "}")]
    weights |= _STAGES | {each.name: each.weight for each in always.terms}
    memory |= _memory(always)
    return _reward(intent, env, weights, memory, '"actor"', lines, _nodes([*phases, always]))


def judge_file(intent: str, env: str, draft: Draft) -> str:
    """Return the text of a judge for one behaviour."""
    body = ["return [", *_calls(draft.parts), "]"]
    return _judge(intent, env, draft.parts, _function("judge(episode)", None, body))


def sequence_judge(intent: str, env: str, phases: Sequence[Draft], always: Draft) -> str:
    """Return the text of a judge for phases one after another.

    Every phase is judged on its own part of the episode, and only if the one before it was done.
    Its last part but in the last phase is the gate to the next.
    """
    functions: list[str] = []
    body = ["part = episode", "leaves = []", "gate = None"]
    parts: list[JudgePart] = [*always.parts]
    for index, draft in enumerate(phases):
        name, own = ORDINALS[index], [part for part in draft.parts if not part.is_gate]
        parts += draft.parts
        if index < len(phases) - 1:
            condition = " & ".join(dict.fromkeys(str(each.judge) for each in draft.reached))
            said = "Return the step by which it is done; None: never."
            ends = [f"return episode.when({condition}, {_seconds(draft):g})"]
            functions.append(_function(f"{name}_done(episode)", said, ends))
            gate = next(part for part in draft.parts if part.is_gate)
            body += [
                f"done = {name}_done(part)",
                f"leaves += {name}(part.before(done), gate)",
                f"gate = {_call(gate, after='gate')}",
                "leaves.append(gate)",
                "part = part.after(done)",
            ]
        else:
            body.append(f"leaves += {name}(part, gate)")
        title = f"Judge how it does this: {', '.join(draft.words)}."
        lines = ["return [", *_calls(own, after="gate"), "]"]
        functions.append(_function(f"{name}(episode, gate)", title, lines))
    body += ["return [", "    *leaves,", *_calls(always.parts), "]"]
    functions.append(_function("judge(episode)", None, body))
    return _judge(intent, env, parts, "\n\n".join(functions))


# ---- rewards


def _reward(
    intent: str,
    env: str,
    weights: Mapping[str, float],
    memory: Mapping[str, int | None],
    seen_by: str,
    lines: Sequence[str],
    nodes: Sequence[Expression],
) -> str:
    given = ", ".join(f'"{name}": {weight:g}' for name, weight in weights.items())
    kept = [f'    "{name}": {_zeros(width)},' for name, width in memory.items()]
    own = "ComposedReward, Phase" if lines[0].startswith("phases") else "ComposedReward"
    made = {node.name for node in nodes}
    measured = {name for name in made if hasattr(signals, name)}
    body = [
        f'"""{_plain(intent)}"""',
        "",
        f"weights = {{{given}}}",
        *(["memory = {", *kept, "}"] if kept else []),
        *([f"memory_to = {seen_by}"] if kept and seen_by else []),
        *lines,
        f"description = {written(_plain(intent))}",
    ]
    body = [fold(line, _WIDTH - 4) for line in body]
    return (
        f'"""{_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"from telic.rewards.composed import {own}\n"
        + _import("telic.rewards.signals", measured)
        + _import("telic.rewards.terms", made - measured)
        + "\n\nclass Composed(ComposedReward):\n"
        + textwrap.indent("\n".join(body), "    ")
        + "\n"
    )


def _import(module: str, names: set[str]) -> str:
    listed = ", ".join(sorted(names))
    line = f"from {module} import {listed}\n"
    if not names or len(line) <= _WIDTH:
        return line if names else ""
    return fold(f"from {module} import ({listed})") + "\n"


def _terms(opening: str, terms: Sequence[WeightedTerm], closing: str) -> list[str]:
    return [opening, *(f'    "{each.name}": {each.term!r},' for each in terms), closing]


def _nodes(drafts: Iterable[Draft]) -> list[Expression]:
    """Return all that the terms of drafts, and the ends of phases, are made of."""
    found = [each.term for draft in drafts for each in draft.terms]
    ends = [each.reward for draft in drafts for each in draft.reached]
    return [node for each in (*found, *ends) for node in each.nodes()]


def _memory(draft: Draft) -> dict[str, int | None]:
    """Return the memory that the terms of a draft, and the end of a phase, need."""
    found: dict[str, int | None] = {}
    for each in (*(term.term for term in draft.terms), *(end.reward for end in draft.reached)):
        found |= each.slots()
    return found


def _seconds(draft: Draft) -> float:
    return max((each.seconds for each in draft.reached), default=0.0)


def _zeros(width: int | None) -> str:
    return "0.0" if width is None else f"({', '.join(['0.0'] * width)},)"


def _names(names: Sequence[str]) -> str:
    return written(tuple(names))


# ---- judges


def _judge(intent: str, env: str, parts: Sequence[JudgePart], functions: str) -> str:
    names = sorted({"metrics", *(_name(part) for part in parts)})
    return (
        f'"""Judge of: {_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"from telic import {', '.join(names)}\n\n\n{functions}"
    )


def _name(part: JudgePart) -> str:
    return "require" if part.is_guard else "score_near" if part.is_about else "score"


def _calls(parts: Sequence[JudgePart], after: str | None = None) -> list[str]:
    """Return the calls that judge parts, as items of a list."""
    return [f"    {_call(part, after)}," for part in parts]


def _call(part: JudgePart, after: str | None = None) -> str:
    """Return the call that judges a part."""
    given = [
        written(_plain(part.title)),
        "part.left(done)" if part.value is None else str(part.value),
    ]
    if part.is_about:
        given += [f"{part.goal:g}", f"{abs(part.goal - part.zero) / 4.0:.4g}"]
    else:
        given += [f"zero={part.zero:g}", f"goal={part.goal:g}"]
    given += [] if part.is_guard else [f"weight={part.weight:g}"]
    given += [f'unit="{part.unit}"'] if part.unit else []
    given += [f'tag="{part.tag}"'] if part.tag else []
    given += [f"after={after}"] if after else []
    return f"{_name(part)}({', '.join(given)})"


def _function(signature: str, words: str | None, lines: Sequence[str]) -> str:
    said = [f'"""{_plain(words)}"""'] if words else []
    body = [fold(line, _WIDTH - 4) for line in [*said, *lines]]
    return f"def {signature}:\n" + textwrap.indent("\n".join(body), "    ") + "\n"


def fold(line: str, width: int = _WIDTH) -> str:
    """Return a line of code; if it is too long, with what its bracket holds on lines of its own."""
    if len(line) <= width:
        return line
    start, ends, depth, in_text = 0, list[int](), 0, False
    for place, letter in enumerate(line):
        in_text ^= letter == '"' and line[place - 1] != "\\"
        if in_text:
            continue
        depth += (letter in "([{") - (letter in ")]}")
        if letter in "([{" and depth == 1 and not start:
            start = place + 1
        elif start and ((letter == "," and depth == 1) or (letter in ")]}" and depth == 0)):
            ends.append(place)
        if ends and depth == 0:
            break
    if not ends:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    pieces = [
        line[a:b].strip() for a, b in zip([start, *(e + 1 for e in ends)], ends, strict=False)
    ]
    inside = [fold(f"{indent}    {piece},", width) for piece in pieces if piece]
    return "\n".join((line[:start], *inside, indent + line[ends[-1] :]))


def _plain(text: str) -> str:
    """Return text that cannot end a string literal."""
    return " ".join(text.replace("\\", " ").replace('"', "'").split())[:200]
