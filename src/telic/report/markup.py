"""HTML, SVG and MathML that are safe by construction: whatever is not Markup is escaped.

A formula in LaTeX becomes MathML, which every browser sets without a library. Read is what reward
formulas are made of: scripts, fractions, roots, accents, Greek, functions, sums, cases. A formula
with anything else is shown as it was typed, never wrongly.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_VOID = frozenset({"br", "hr", "img", "meta", "wbr"})


class Markup(str):
    """Text that is HTML already; adding or formatting it makes plain text again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as HTML text."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Return the parts one after the other; they and what is between are escaped if need be."""
    return Markup(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: what is inside; None is left out.
        attributes: `class_` is class, `aria_label` is aria-label; None is left out.
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{pairs}>")
    inside = join(child for child in children if child is not None)
    return Markup(f"<{name}{pairs}>{inside}</{name}>")


_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.S)
_LONGEST, _DEEPEST = 4_000, 40


def _pairs(words: str) -> dict[str, str]:
    names = words.split()
    return dict(zip(names[::2], names[1::2], strict=True))


_LETTERS = _pairs(r"""
    alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ
    kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ phi ϕ varphi φ chi χ psi ψ omega ω
    Gamma Γ Delta Δ Theta Θ Lambda Λ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω ell ℓ infty ∞ partial ∂
    nabla ∇
""")
_SIGNS = _pairs(r"""
    cdot ⋅ times × pm ± le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ sim ∼ in ∈ notin ∉ to →
    rightarrow → mid ∣ vert | lvert | rvert | Vert ‖ lVert ‖ rVert ‖ | ‖ { { } } langle ⟨
    rangle ⟩ lfloor ⌊ rfloor ⌋ ldots … dots … cdots ⋯ odot ⊙ circ ∘ land ∧ wedge ∧ lor ∨ neg ¬
    ll ≪ gg ≫ top ⊤ prime ′ cup ∪ cap ∩ _ _ % % & & # # $ $
""")
_FUNCTIONS: list[str] = re.findall(
    r"\w+",
    "arccos arcsin arctan argmax argmin clip cos cosh det exp inf lim ln log max min sin sinh sup "
    "tan tanh",
)
_BIG = {"sum": "∑", "prod": "∏", "int": "∫"}
_ACCENTS = _pairs("hat ^ widehat ^ tilde ~ widetilde ~ dot ˙ ddot ¨ vec →")
_LINES = frozenset({"overline", "bar"})  # drawn by CSS: few fonts stretch the character
_WORDS = frozenset({"text", "textrm", "textbf", "textit", "mathrm", "operatorname", "mbox"})
_STYLES = frozenset({"mathbf", "boldsymbol", "bm", "mathit", "mathcal", "mathsf", "mathbb"})
_STRUCK = {"1": "𝟙", "E": "𝔼", "R": "ℝ", "N": "ℕ", "Z": "ℤ", "I": "𝕀", "P": "ℙ"}
_SPACES = frozenset(
    {",", ";", ":", "!", " ", "quad", "qquad", "displaystyle", "limits", "nolimits"}
)
_SIZES = frozenset({"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "bigg", "Bigg"})
_ROWS = frozenset({"cases", "aligned", "align", "align*", "gathered", "array"})
_BREAKS = ("+", "=")


def _operator(sign: str) -> Markup:
    if sign in _BREAKS:
        return tag("mo", sign, form="infix")
    return tag("mo", sign)


_SYMBOLS: dict[str, Markup] = {
    **{name: tag("mi", letter) for name, letter in _LETTERS.items()},
    **{name: _operator(sign) for name, sign in (_SIGNS | _BIG).items()},
    **{name: tag("mi", name) for name in _FUNCTIONS},
    **dict.fromkeys(_SPACES, Markup()),
}


class _Unreadable(ValueError):
    """The formula uses something that is not read here."""


def formula(latex: str) -> Markup:
    """Return a formula as MathML in pieces that may wrap; as it was typed if it cannot be read."""
    source = latex.strip().strip("$").removeprefix(r"\[").removesuffix(r"\]").strip()
    source = source.removeprefix(r"\(").removesuffix(r"\)")
    try:
        nodes = _Reader(source).everything()
    except _Unreadable:
        return tag("code", latex, class_="latex")
    pieces: list[list[Markup]] = [[]]
    breaks = {_operator(sign) for sign in _BREAKS}
    for node in nodes:
        if node in breaks and pieces[-1]:
            pieces.append([])
        pieces[-1].append(node)
    row = [tag("math", tag("mrow", *piece)) for piece in pieces]
    return tag("span", join(row, tag("wbr")), class_="formula", role="math", aria_label=source)


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, source: str) -> None:
        if len(source) > _LONGEST:
            raise _Unreadable("too long")
        self._tokens = _TOKEN.findall(source)
        self._at = 0
        self._depth = 0

    def everything(self) -> list[Markup]:
        nodes = self._row(())
        if self._at < len(self._tokens) or not nodes:
            raise _Unreadable("it ends early")
        return nodes

    def _peek(self) -> str | None:
        """Return the next token that is not a space, unread."""
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise _Unreadable("it ends early")
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._take() != wanted:
            raise _Unreadable(f"{wanted} is missing")

    def _row(self, ends: tuple[str, ...]) -> list[Markup]:
        """Read atoms with their scripts until one of `ends`, which is left unread."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unreadable("too deep")
        nodes: list[Markup] = []
        while (token := self._peek()) is not None and token not in ends:
            node, is_big = self._atom()
            node = self._scripts(node, is_big)
            if node:
                nodes.append(node)
        self._depth -= 1
        return nodes

    def _group(self) -> Markup:
        """Read {...} or a single atom."""
        if self._peek() != "{":
            return self._atom()[0]
        self._take()
        nodes = self._row(("}",))
        self._expect("}")
        return nodes[0] if len(nodes) == 1 else tag("mrow", *nodes)

    def _scripts(self, base: Markup, is_big: bool) -> Markup:
        below: Markup | None = None
        above: Markup | None = None
        while self._peek() in ("_", "^"):
            if self._take() == "_":
                below = self._group()
            else:
                above = self._group()
        names = ("munder", "mover", "munderover") if is_big else ("msub", "msup", "msubsup")
        if below is not None and above is not None:
            return tag(names[2], base, below, above)
        if below is not None:
            return tag(names[0], base, below)
        return base if above is None else tag(names[1], base, above)

    def _atom(self) -> tuple[Markup, bool]:
        """Read one thing; say whether its scripts go above and below it."""
        token = self._peek()
        if token == "{":
            return self._group(), False
        token = self._take()
        if token.startswith("\\"):
            name = token[1:]
            return self._command(name), name in _BIG
        if token in ("}", "_", "^", "&"):
            raise _Unreadable(f"{token} out of place")
        if token[0].isdigit():
            return tag("mn", token), False
        if token.isalpha():
            return tag("mi", token), False
        return _operator("−" if token == "-" else token), False

    def _command(self, name: str) -> Markup:
        match name:
            case _ if name in _SYMBOLS:
                return _SYMBOLS[name]
            case _ if name in _SIZES:
                return _operator("") if self._peek() == "." and self._take() else self._atom()[0]
            case _ if name in _WORDS:
                return tag("mtext", self._raw())
            case _ if name in _ACCENTS or name in _LINES:
                return self._accented(name)
            case _ if name in _STYLES:
                return self._styled(name)
            case "frac" | "tfrac" | "dfrac":
                return tag("mfrac", self._group(), self._group())
            case "sqrt":
                return tag("msqrt", self._group())
            case "begin":
                return self._table()
            case _:
                raise _Unreadable(f"\\{name}")

    def _accented(self, name: str) -> Markup:
        if name in _LINES:
            return tag("mrow", self._group(), class_="overline")
        return tag("mover", self._group(), _operator(_ACCENTS[name]), accent="true")

    def _styled(self, name: str) -> Markup:
        if name == "mathbb":
            letter = self._raw()
            if letter not in _STRUCK:
                raise _Unreadable(f"\\mathbb{{{letter}}}")
            return tag("mi", _STRUCK[letter])
        return tag("mrow", self._group(), class_=name)

    def _raw(self) -> str:
        """Read {words} as they are typed."""
        self._expect("{")
        start = self._at
        while self._take() != "}":
            pass
        words = self._tokens[start : self._at - 1]
        if "{" in words:
            raise _Unreadable("braces in words")
        return "".join(word[1:] if word.startswith("\\") else word for word in words)

    def _table(self) -> Markup:
        kind = self._raw()
        if kind not in _ROWS:
            raise _Unreadable(kind)
        rows: list[list[Markup]] = [[]]
        while True:
            rows[-1].append(tag("mtd", *self._row(("&", r"\\", r"\end"))))
            end = self._take()
            if end == r"\\":
                rows.append([])
            elif end == r"\end":
                break
        self._raw()
        table = tag("mtable", *(tag("mtr", *row) for row in rows), class_=kind)
        return tag("mrow", _operator("{"), table) if kind == "cases" else table
