"""Turn a draft into files: a reward and a judge of exactly the form a model would write."""

from __future__ import annotations

import textwrap

from telic.composer.draft import Draft


def reward_file(intent: str, env: str, draft: Draft) -> str:
    """Return the text of the reward file."""
    weights = ", ".join(f'"{each.name}": {each.weight:g}' for each in draft.terms)
    memory = "".join(f'        "{name}": {start},\n' for name, start in draft.memory.items())
    terms = "".join(f'        "{each.name}": "{each.words}",\n' for each in draft.terms)
    sums = "".join(
        f'            "{each.name}": self.weights["{each.name}"] * ({each.code}),\n'
        for each in draft.terms
    )
    latex = " + ".join(rf"w_{{\text{{{each.name}}}}} {each.latex}" for each in draft.terms)
    lines = textwrap.indent("\n".join(draft.lines), " " * 8)
    return (
        f'"""{_plain(intent)} ({env}). Written by the composer."""\n\n'
        "import torch\n\nfrom telic import RewardFunction, quantities\n\n\n"
        "class Composed(RewardFunction):\n"
        f'    """{_plain(intent)}"""\n\n'
        f"    weights = {{{weights}}}\n"
        + (f"    memory = {{\n{memory}    }}\n" if memory else "")
        + f"    terms = {{\n{terms}    }}\n"
        f'    latex = r"r = {latex}"\n'
        f'    description = "{_plain(intent)}"\n\n'
        "    def compute(self, obs, action, next_obs, info):\n"
        f"{lines}\n"
        f"        terms = {{\n{sums}        }}\n"
        "        return sum(terms.values()), terms\n"
    )


def judge_file(intent: str, env: str, draft: Draft) -> str:
    """Return the text of the judge file."""
    names = sorted({each.code.partition("(")[0] for each in draft.parts})
    lines = textwrap.indent("\n".join(draft.judge_lines), "    ")
    parts = "".join(
        f"        {each.code.replace('(', f'({_quoted(each.title)}, ', 1)},\n"
        for each in draft.parts
    )
    return (
        f'"""Judge of: {_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"import numpy as np\n\nfrom telic import {', '.join(names)}\n\n\n"
        f"def judge(episode):\n{lines}\n    return [\n{parts}    ]\n"
    )


def _plain(text: str) -> str:
    """Return text that cannot end a string literal."""
    return " ".join(text.replace("\\", " ").replace('"', "'").split())[:200]


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'
