"""Turn drafts into files: a reward and a judge of exactly the form a model would write."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from telic.composer.draft import Draft, JudgePart, Term

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
_STAGE, _FINISH = 1.5, 10.0
_STAGE_TERMS = [
    Term("stage", "phase", _STAGE, "for every phase that is done, at every step", "k"),
    Term("finish", "done.float()", _FINISH, "once for every phase: it is done", r"[\text{done}]"),
]
_USES = re.compile(r'self\.(memory|weights)\["(\w+)"\]')


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
            "time left for what comes next",
            "part.left(done)",
            zero=0.0,
            goal=needed,
            unit="s",
            weight=main.weight,
            tag=main.tag,
            kind="phased",
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
    body = [*draft.lines, *_term_lines(draft.terms), "return sum(terms.values()), terms"]
    seen_by: str | list[str] = "actor" if draft.is_seen else "critic"
    if draft.is_seen and draft.hidden:
        seen_by = [name for name in draft.memory if name not in draft.hidden]
    return _reward(intent, env, draft.terms, draft.memory, seen_by, _method(_COMPUTE, None, body))


def judge_file(intent: str, env: str, draft: Draft) -> str:
    """Return the text of a judge for one behaviour."""
    body = [*draft.judge_lines, "return [", *(f"    {_call(part)}," for part in draft.parts), "]"]
    return _judge(intent, env, draft.parts, _function("judge(episode)", None, body))


_COMPUTE = "compute(self, obs, action, next_obs, info)"


def sequence_reward(
    intent: str, env: str, phases: Sequence[Draft], always: Draft, dt: float
) -> str:
    """Return the text of a reward for phases one after another.

    The terms of a phase pay only while it is active, more in a later one; finishing pays once.
    """
    numbered = [_numbered(phase, index) for index, phase in enumerate(phases)]
    terms = [term for each in numbered for term in each.terms] + [*_STAGE_TERMS, *always.terms]
    memory: dict[str, int | None] = {"phase": None, "clock": None}
    for each in (*numbered, always):
        memory |= each.memory
    names = ORDINALS[: len(phases)]
    body = ['phase = self.memory["phase"]']
    body += [
        f"{name}, {name}_reached = self.{name}(action, info, phase == {index})"
        for index, name in enumerate(names)
    ]
    reached = " | ".join(
        f"((phase == {index}) & {name}_reached)" for index, name in enumerate(names[:-1])
    )
    body += [
        f"reached = {reached}",
        f'clock = self.memory["clock"] + {dt:g} * reached.float()',
        f"needed = {_needed([_seconds(phase) for phase in phases[:-1]], dt)}",
        "done = reached & (clock >= needed)",
        'self.memory["phase"] = phase + done.float()',
        'self.memory["clock"] = torch.where(done, torch.zeros_like(clock), clock)',
        *always.lines,
        *_term_lines([*_STAGE_TERMS, *always.terms]),
        "terms = {" + ", ".join(f"**{name}" for name in names) + ", **terms}",
        "return sum(terms.values()), terms",
    ]
    methods = [_method(_COMPUTE, None, body)]
    for index, (name, draft) in enumerate(zip(names, numbered, strict=True)):
        methods.append(_phase_method(name, draft, (index + 1) / len(names)))
    return _reward(intent, env, terms, memory, "actor", "\n".join(methods))


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
        lines = [*draft.judge_lines, "return ["]
        lines += [f"    {_call(each, after='gate')}," for each in own]
        title = f"Judge how it does this: {', '.join(draft.words)}."
        if index < len(phases) - 1:
            condition = " & ".join(f"({each.judge})" for each in draft.reached)
            ends = [*draft.judge_lines, f"return episode.when({condition}, {_seconds(draft):g})"]
            gate = next(part for part in draft.parts if part.is_gate)
            said = "Return the step by which it is done; None: never."
            functions.append(_function(f"{name}_done(episode)", said, ends))
            body += [
                f"done = {name}_done(part)",
                f"leaves += {name}(part.before(done), gate)",
                f"gate = {_call(gate, after='gate')}",
                "leaves.append(gate)",
                "part = part.after(done)",
            ]
        else:
            body.append(f"leaves += {name}(part, gate)")
        functions.append(_function(f"{name}(episode, gate)", title, [*lines, "]"]))
    calls = [f"    {_call(part)}," for part in always.parts]
    body += [*always.judge_lines, "return [", "    *leaves,", *calls, "]"]
    functions.append(_function("judge(episode)", None, body))
    return _judge(intent, env, parts, "\n\n".join(functions))


# ---------------------------------------------------------------------------------------- rewards


def _reward(
    intent: str,
    env: str,
    terms: Sequence[Term],
    memory: dict[str, int | None],
    seen_by: str | list[str],
    methods: str,
) -> str:
    weights = ", ".join(f'"{term.name}": {term.weight:g}' for term in terms)
    kept = "".join(f'        "{name}": {_zeros(width)},\n' for name, width in memory.items())
    names = "".join(f'"{name}", ' for name in seen_by).rstrip()
    seen = f'"{seen_by}"' if isinstance(seen_by, str) else f"({names})"
    meanings = "".join(f'        "{term.name}": "{term.words}",\n' for term in terms)
    latex = " + ".join(map(_summand, terms))
    return (
        f'"""{_plain(intent)} ({env}). Written by the composer."""\n\n'
        "import torch\n\nfrom telic import RewardFunction, quantities\n\n\n"
        "class Composed(RewardFunction):\n"
        f'    """{_plain(intent)}"""\n\n'
        f"    weights = {{{weights}}}\n"
        + (f"    memory = {{\n{kept}    }}\n" if kept else "")
        + (f"    memory_to = {seen}\n" if kept and seen_by != "critic" else "")
        + f"    terms = {{\n{meanings}    }}\n"
        f'    latex = r"r = {latex}"\n'
        f'    description = "{_plain(intent)}"\n\n'
        f"{methods}"
    )


def _summand(term: Term) -> str:
    name = term.name.replace("_", " ")  # an underscore would set what follows as an index
    return rf"w_{{\text{{{name}}}}} {_factor(term.latex)}"


def _factor(latex: str) -> str:
    """Return a formula as it is multiplied: in parentheses if it is negative or a difference."""
    return f"({latex})" if latex.startswith(("-", r"\pm", "1 -", "1-")) else latex


def _term_lines(terms: Sequence[Term], on: str = "") -> list[str]:
    sums = [
        f'    "{term.name}": self.weights["{term.name}"] * {on}({term.code}),' for term in terms
    ]
    return ["terms = {", *sums, "}"]


def _phase_method(name: str, draft: Draft, share: float) -> str:
    """Return the method of one phase: its terms, scaled, and whether its end is reached."""
    body = [f"on = {share:.4g} * active.float()"]
    for key, width in draft.memory.items():
        # A phase that is not active yet must find its memory as at the start of an episode.
        mask = "active.float()" if width is None else "active.float().unsqueeze(-1)"
        body.append(f'self.memory["{key}"] = self.memory["{key}"] * {mask}')
    reached = " & ".join(f"({each.reward})" for each in draft.reached) or "active"
    body += [*draft.lines, *_term_lines(draft.terms, "on * "), f"return terms, {reached}"]
    return _method(f"{name}(self, action, info, active)", ", ".join(draft.words), body)


def _numbered(draft: Draft, index: int) -> Draft:
    """Return a draft whose terms and memory have names of their own: "speed_2"."""
    number = index + 1
    own = {term.name for term in draft.terms} | set(draft.memory)

    def rename(code: str) -> str:
        return _USES.sub(lambda m: f'self.{m[1]}["{m[2]}_{number}"]' if m[2] in own else m[0], code)

    return Draft(
        terms=[
            term._replace(name=f"{term.name}_{number}", code=rename(term.code))
            for term in draft.terms
        ],
        lines=[rename(line) for line in draft.lines],
        memory={f"{name}_{number}": width for name, width in draft.memory.items()},
        reached=[each._replace(reward=rename(each.reward)) for each in draft.reached],
        words=draft.words,
    )


def _seconds(draft: Draft) -> float:
    return max((each.seconds for each in draft.reached), default=0.0)


def _needed(seconds: Sequence[float], dt: float) -> str:
    """Return code for the time the active phase must hold, half a step short of it."""
    code = f"torch.full_like(phase, {max(seconds[-1] - 0.5 * dt, 0.0):g})"
    for index in range(len(seconds) - 2, -1, -1):
        code = f"torch.where(phase == {index}, {max(seconds[index] - 0.5 * dt, 0.0):g}, {code})"
    return code


def _zeros(width: int | None) -> str:
    return "0.0" if width is None else f"({', '.join(['0.0'] * width)},)"


# ---------------------------------------------------------------------------------------- judges


def _judge(intent: str, env: str, parts: Sequence[JudgePart], functions: str) -> str:
    names = sorted({_name(part) for part in parts})
    return (
        f'"""Judge of: {_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"import numpy as np\n\nfrom telic import {', '.join(names)}\n\n\n{functions}"
    )


def _name(part: JudgePart) -> str:
    return "require" if part.is_guard else "score_near" if part.is_about else "score"


def _call(part: JudgePart, after: str | None = None) -> str:
    """Return the call that judges a part."""
    given = [f'"{_plain(part.title)}"', part.value]
    if part.is_about:
        given += [f"{part.goal:g}", f"{abs(part.goal - part.zero) / 4.0:.4g}"]
    else:
        given += [f"zero={part.zero:g}", f"goal={part.goal:g}"]
    given += [] if part.is_guard else [f"weight={part.weight:g}"]
    given += [f'unit="{part.unit}"'] if part.unit else []
    given += [f'tag="{part.tag}"'] if part.tag else []
    given += [f"after={after}"] if after else []
    return f"{_name(part)}({', '.join(given)})"


# ------------------------------------------------------------------------------------------ text


def _method(signature: str, words: str | None, lines: Sequence[str]) -> str:
    return textwrap.indent(_function(signature, words, lines), "    ")


def _function(signature: str, words: str | None, lines: Sequence[str]) -> str:
    said = [f'"""{_plain(words)}"""'] if words else []
    return f"def {signature}:\n" + textwrap.indent("\n".join([*said, *lines]), "    ") + "\n"


def _plain(text: str) -> str:
    """Return text that cannot end a string literal."""
    return " ".join(text.replace("\\", " ").replace('"', "'").split())[:200]
