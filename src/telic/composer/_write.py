"""Convert drafts to a reward file and to a judge whose criteria the host measures."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from telic.composer._draft import Draft, JudgePart, WeightedTerm
from telic.judges.criteria import Composition, Criterion, EpisodePhase
from telic.judges.measured import TIME_LEFT, judge_text
from telic.rewards import signals
from telic.rewards.composed import FINISH, STAGE
from telic.rewards.node import written

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_STAGES = {STAGE: 1.5, FINISH: 10.0}
_HIDDEN = frozenset({"strayed"})
"""memory hidden from the policy because it depends on a state that only the simulation knows"""


def put_in_order(drafts: Sequence[Draft], always: Draft) -> None:
    """Label criteria with their phase, and add gates between consecutive phases.

    Criteria that are part of all phases are not judged again for the episode as a whole.
    """
    own = [{part.title for part in draft.parts} for draft in drafts]
    always.parts = [
        part for part in always.parts if not all(part.title in titles for titles in own)
    ]
    for index, draft in enumerate(drafts):
        name, is_last = ORDINALS[index], index == len(drafts) - 1
        main = max(draft.parts, key=lambda part: part.weight)
        draft.parts = [_titled(part, f"{name}: {part.title}") for part in draft.parts]
        if not main.is_about and not main.is_guard:
            # Skipping a phase and doing the others well halves the score: the main criterion of a
            # phase is required to a third of its goal.
            bit = 0.3 * (main.goal - main.zero)
            guard = main.with_numbers(main.zero - bit, main.zero + bit, 0.0)
            guard = guard.model_copy(update={"is_guard": True, "is_open": False, "best": None})
            draft.parts.append(_titled(guard, f"{name}: not skipped ({main.title})"))
        if is_last:
            continue
        if not any(end.seconds for end in draft.reached):
            # A phase ends when something was done: rewarding waiting would discourage it.
            draft.terms = [term for term in draft.terms if term.name != "alive"]
        needed = round(0.4 * sum(each.seconds for each in drafts[index + 1 :]), 2)
        gate = JudgePart(
            title=f"{name}: done with {needed:g} s left",
            quantity="time left for the next phase",
            measure=TIME_LEFT,
            kind="phased",
            goal=needed,
            unit="s",
            weight=main.weight,
            tag=main.tag,
        )
        draft.parts.append(gate)
    # All phases have equal weight: the last one has no gate, and must not matter less.
    weights = [sum(part.weight for part in draft.parts) for draft in drafts]
    for draft, weight in zip(drafts, weights, strict=True):
        scale = max(weights) / weight
        draft.parts = [
            part.with_numbers(part.zero, part.goal, round(scale * part.weight, 2))
            for part in draft.parts
        ]


def _titled(part: JudgePart, title: str) -> JudgePart:
    return part.model_copy(update={"title": title})


def composition(
    intent: str,
    env: str,
    phases: Sequence[Draft],
    always: Draft,
    *,
    is_written: bool = True,
    **settings: Any,
) -> Composition:
    """Return criteria, and if `is_written` their files. A single behavior has no `phases`."""
    criteria = tuple(
        Criterion.model_validate({**part.model_dump(), "phase": number % (len(phases) + 1)})
        for number, each in enumerate((*phases, always), 1)
        for part in each.parts
    )
    ends = tuple(
        EpisodePhase()
        if draft is phases[-1]
        else EpisodePhase(
            until=" & ".join(dict.fromkeys(f"({each.judge})" for each in draft.reached)),
            seconds=_seconds(draft),
        )
        for draft in phases
    )
    return Composition(
        intent=intent,
        env=env,
        criteria=criteria,
        phases=ends,
        reward=_reward_file(intent, env, phases, always) if is_written else "",
        judge=judge_text(intent, env, criteria, ends) if is_written else "",
        **settings,
    )


# ---- rewards


def _reward_file(intent: str, env: str, phases: Sequence[Draft], always: Draft) -> str:
    """Return the text of a reward, with phases and the terms that apply to all phases."""
    if not phases:
        always = replace(always, reached=[])  # nothing comes after it
    weights: dict[str, float] = {}
    memory: dict[str, int | None] = {"phase": None, "clock": None} if phases else {}
    made: set[str] = set()
    turns: list[float] = []
    lines = ["phases = ("] if phases else []
    for index, draft in enumerate((*phases, always)):
        suffix = f"_{index + 1}" if index < len(phases) else ""
        own = [each._replace(name=each.name + suffix) for each in draft.terms]
        for node in (*(each.term for each in own), *(each.reward for each in draft.reached)):
            memory |= {f"{name}{suffix}": width for name, width in node.slots().items()}
            made |= {each.name for each in node.nodes()}
            turns += [each["hertz"] for each in node.nodes() if each.name == "Beat"]
        if not suffix:
            weights |= _STAGES if phases else {}
            lines += [")"] if phases else []
            lines += _terms("terms = {", own, "}")
        else:
            lines += ["    Phase(", f"        {written(_plain(', '.join(draft.words)))},"]
            lines += [f"        {line}" for line in _terms("{", own, "},")]
            if index < len(phases) - 1:
                until = ", ".join(repr(each.reward) for each in draft.reached)
                lines += [f"        until=({until},),"] if until else []
                lines += [f"        seconds={_seconds(draft):g},"]
            lines.append("    ),")
        weights |= {each.name: each.weight for each in own}
    seen = tuple(name for name in memory if name not in _HIDDEN)
    is_all = bool(phases) or len(seen) == len(memory)
    kept = [
        f'    "{name}": {"0.0" if width is None else written((0.0,) * width)},'
        for name, width in memory.items()
    ]
    if kept:
        kept = ["memory = {", *kept, "}"]
        if phases or always.is_seen:
            kept.append(f"memory_to = {written('actor' if is_all else seen)}")
    if turns:
        kept.append(f"phase_hz = {turns[0]:.8g}")
    given = ", ".join(f'"{name}": {weight:g}' for name, weight in weights.items())
    body = [
        f'"""{_plain(intent)}"""',
        "",
        f"weights = {{{given}}}",
        *kept,
        *lines,
        f"description = {written(_plain(intent))}",
    ]
    measured = {name for name in made if hasattr(signals, name)}
    return (
        f'"""{_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"from telic.rewards.composed import ComposedReward{', Phase' if phases else ''}\n"
        + _import("telic.rewards.signals", measured)
        + _import("telic.rewards.terms", made - measured)
        + "\n\nclass Composed(ComposedReward):\n"
        + textwrap.indent("\n".join(body), "    ")
        + "\n"
    )


def _import(module: str, names: set[str]) -> str:
    return f"from {module} import {', '.join(sorted(names))}\n" if names else ""


def _terms(opening: str, terms: Sequence[WeightedTerm], closing: str) -> list[str]:
    return [opening, *(f'    "{each.name}": {each.term!r},' for each in terms), closing]


def _seconds(draft: Draft) -> float:
    return max((each.seconds for each in draft.reached), default=0.0)


# ---- layout


def _plain(text: str) -> str:
    """Replace characters that could end a string literal, and truncate to 200 characters."""
    return " ".join(text.replace("\\", " ").replace('"', "'").split())[:200]
