"""Reward and judge files, bent by a grammar of attacks.

The corpus is what people, models and the composer write. A mutation puts a hostile expression in
the place of an ordinary one, wraps it, or adds hostile statements and definitions. The names tried
are taken from the objects themselves, at run time.
"""

import ast
import contextlib
import copy
import json
import random
import tomllib
from pathlib import Path

from telic.sandbox._offered import EVERYTHING

ROOT = Path(__file__).parents[2]
ENVS = ("HalfCheetah-v5", "Ant-v5", "Hopper-v5", "Walker2d-v5", "Swimmer-v5", "Humanoid-v5")
INTENTS = (
    "run forward fast",
    "walk forward slowly",
    "walk forward at 0.8 m/s",
    "run forward and keep the torso upright",
    "crawl",
    "spin around",
    "lie down",
    "stand on one leg",
    "move sideways to the left",
    "do a front flip",
    "raise a leg",
    "go up and down",
    "walk 3 m forward and come back",
    "run backward",
    "stand still",
    "jump as high as you can",
    "walk forward, then stop",
    "hop forward",
    "walk in a circle",
    "turn left",
    "lean forward",
    "move forward with the body low",
    "do a backflip and land on your feet",
)


BENCHMARK = tuple(
    case["intent"]
    for path in sorted((ROOT / "src/telic/bench/suites").glob("*.toml"))
    for case in tomllib.loads(path.read_text())["case"]
)


def corpus() -> dict[str, str]:
    """Return files by name; a judge's name begins with judge."""
    from telic.composer.compose import compose
    from telic.envs import make
    from telic.errors import TelicError

    files: dict[str, str] = {}
    for env_id in ENVS:
        env = make(env_id, num_envs=1)
        env.close()
        for intent in (*INTENTS, *BENCHMARK):
            try:
                made = compose(intent, env.spec)
            except TelicError:
                continue  # this robot cannot do that, and says so
            files[f"reward {env_id} {intent}"] = made.reward
            files[f"judge {env_id} {intent}"] = made.judge
    for folder in ("tests/rewards/reference_style", "examples"):
        for path in sorted((ROOT / folder).glob("*.py")):
            if "def compute" in path.read_text() or "def reward_fn" in path.read_text():
                files[f"reward {path.stem}"] = path.read_text()
    for path in sorted((ROOT / "tests/session/recorded").glob("*.json")):
        for number, text in enumerate(_sources(json.loads(path.read_text()))):
            kind = "judge" if "def judge" in text else "reward"
            files[f"{kind} recorded {path.stem} {number}"] = text
    return files


def _sources(value: object) -> list[str]:
    """Return every text inside some JSON that is a reward or a judge."""
    if isinstance(value, str):
        found = [value]
        with contextlib.suppress(ValueError):
            found += _sources(json.loads(value)) if value.lstrip().startswith("{") else []
        return [each for each in found if _is_source(each)]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for each in value for text in _sources(each)] if isinstance(value, list) else []


def _is_source(text: str) -> bool:
    if "def compute" not in text and "def judge" not in text and "def reward_fn" not in text:
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


DUNDERS = """
__class__ __base__ __bases__ __mro__ __subclasses__ __globals__ __builtins__ __dict__ __init__
__code__ __closure__ __func__ __self__ __module__ __reduce__ __reduce_ex__ __getattribute__
__array_interface__ __torch_function__ __wrapped__ __new__ __call__ __getstate__ __setattr__
__import__ __loader__ __spec__ __del__ __slots__ __offered__
""".split()  # noqa: SIM905
PRIVATE = "_lender _single _exact _info _read _spec _compute _trajectory _real".split()  # noqa: SIM905
PATHS = ("/etc/passwd", "planted", "../planted", "/proc/self/environ")


class Grammar:
    """Makes hostile expressions, statements and definitions around names that exist."""

    def __init__(self, rng: random.Random, names: list[str]) -> None:
        self.rng = rng
        self.names = names
        self.offered = sorted(EVERYTHING)

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def name(self) -> str:
        kinds = (*(self.offered,) * 9, self.names, DUNDERS, PRIVATE)
        return self.rng.choice(self.rng.choice(kinds))

    def thing(self) -> str:
        """Return an expression for something the code was given or can make."""
        return self.pick(
            *("obs", "action", "next_obs", "info", "info.spec", "info.robot", "self", "episode"),
            *("np", "torch", "math", "quantities", "telic", "quantities.speed", "np.add"),
            *("np.float32", "torch.float32", "np.zeros(3)", "torch.zeros(3)", "torch.Tensor"),
            *("info['mj_data']", "info['mj_model']", "RewardFunction", "super()", "score"),
            *("leaf('x', 1.0, zero=0.0, goal=1.0)", "(lambda: 0)", "print", "len", "[]", "''"),
            *("{}", "b''", "range(3)", "ValueError('x')", "(i for i in [1])", "getattr", "type"),
            *("torch.max(torch.zeros(2), 0)", "np.linalg", "classmethod", "property", "open"),
        )

    def argument(self) -> str:
        path = self.pick(*PATHS)
        return self.pick(
            *("", "0", "-1", "10**9", "'x'", f"'{path}'", "b'cos'", "None", "[1]", "lambda *a: 99"),
            *("update={'credit': 99.0}", "proto='pickle', allow_pickle=True", "out=obs", "obs"),
            *("info", "dtype=object", "self", "'__class__'", "{'planted': 1.0}", "obs, 99.0"),
        )

    def expression(self, depth: int = 3) -> str:
        if depth == 0:
            return self.thing()
        inner = self.expression(depth - 1)
        name, item = self.name(), self.pick("0", "'planted'", "slice(None)", "...", "-1", "10**9")
        return self.pick(
            f"{inner}.{name}",
            f"{inner}.{name}({self.argument()})",
            f"{inner}.{name}({self.argument()}).{self.name()}",
            f"getattr({inner}, '{name}')",
            f"getattr({inner}, '{name}', None)",
            f"getattr({inner}, '_' + '_class_' + '_')",
            f"hasattr({inner}, '{name}')",
            f"{inner}[{item}]",
            f"{inner}({self.argument()})",
            f"[x.{name} for x in [{inner}]][0]",
            f"(lambda x: x.{name})({inner})",
            f"f'{{{inner}.{name}}}'".replace("''", "'"),
            f"f'{{{inner}!r:>{{{inner}.{name}}}}}'".replace("''", "'"),
            f"'{{0.{name}}}'.format({inner})",
            f"map(lambda x: x.{name}, [{inner}])",
            f"isinstance({inner}, {self.thing()})",
            f"(y := {inner}).{name}",
            f"sorted([{inner}], key=lambda x: x.{name})",
            f"torch.Tensor.{name}({inner})",
            f"np.{name}({inner})",
            f"torch.{name}({inner})",
            f"quantities.{name}.function({inner})",
            f"{{'k': {inner}}}['k'].{name}",
        )

    def statement(self) -> str:
        value, name = self.expression(self.rng.randint(1, 3)), self.name()
        return self.pick(
            value,
            f"{value} = 99.0",
            f"{value} += 99.0",
            f"{value}['planted'] = 99.0",
            f"{value}[...] = 99.0",
            f"{value}.fill_(99.0)",
            f"{value}.update({{'planted': 99.0}})",
            f"del {value}",
            f"self.{name} = {value}",
            f"super().{name}['planted'] = 99.0",
            f"super().{name}({self.argument()})",
            f"for self in [{value}]:\n    self.{name}",
            f"with {value} as w:\n    w.{name}",
            f"try:\n    {value}\nexcept Exception as e:\n    e.{name}",
            f"match {value}:\n    case {{'k': k}}:\n        k.{name}\n    case z:\n        z.{name}"
            "",
            f"import {self.pick('os', 'sys', 'numpy', 'torch', 'builtins')} as m\nm.{name}",
            f"from {self.pick('numpy', 'torch', 'telic', 'math')} import {name}",
            f"def f(x={value}) -> {self.thing()}.{name}:\n    return x.{name}\nf()",
            f"global {name}",
            f"print({value}, file={self.thing()})",
            f"assert {value}, {value}",
            f"raise {value}",
            f"# {self.pick(chr(12), chr(0x2028), chr(0x85), chr(11), chr(13))}import os",
            f"x: {value} = 1",
        )

    def definition(self) -> str:
        name, value = self.name(), self.expression(2)
        return self.pick(
            f"class A:\n    m = {self.pick('classmethod', 'property')}(lambda c: c)\n"
            f"    def peek(self):\n        self.{name} = 0\n        return self.{name}\n",
            f"class A:\n    class B:\n        def peek(self):\n            return self.{name}\n",
            f"class A:\n    @classmethod\n    def me(cls):\n        return cls.{name}\n",
            f"class A:\n    x = {value}\n",
            f"class A({self.thing()}):\n    def {name}(self, *a):\n        return {value}\n",
            f"class A:\n    def __init__(self):\n        self.{name} = {self.thing()}\n"
            f"    def peek(self):\n        return self.{name}\n",
            f"def grab(x):\n    return x.{name}\n",
            f"grab = lambda self: self.{name}\n",
            f"@{self.thing()}\ndef grab(x):\n    return x\n",
            f"table = [{value}]\n",
        )


class _Replace(ast.NodeTransformer):
    """Put another expression in the place of the n-th."""

    def __init__(self, number: int, new: ast.expr) -> None:
        self.left = number
        self.new = new

    def visit(self, node: ast.AST) -> ast.AST:
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        is_value = isinstance(node, ast.expr) and is_read
        if is_value and not isinstance(node, ast.JoinedStr):
            self.left -= 1
            if self.left == 0:
                return copy.deepcopy(self.new)
        return self.generic_visit(node) if not isinstance(node, ast.JoinedStr) else node


def mutate(text: str, grammar: Grammar) -> str:
    """Return a file with one to three hostile changes; it may no longer be valid Python."""
    for _ in range(grammar.rng.choice((1, 1, 1, 2, 3))):
        text = grammar.rng.choice((_with_expression, _with_statement, _with_definition))(
            text, grammar
        )
    return text


def _with_expression(text: str, grammar: Grammar) -> str:
    try:
        tree = ast.parse(text)
        new = ast.parse(grammar.expression(grammar.rng.randint(1, 3)), mode="eval").body
        return ast.unparse(_Replace(grammar.rng.randint(1, 60), new).visit(tree))
    except (SyntaxError, ValueError, RecursionError):
        return text


def _with_statement(text: str, grammar: Grammar) -> str:
    """Put a statement at the start of a random function."""
    lines = text.split("\n")
    heads = [i for i, line in enumerate(lines) if _is_head(line, "def ")]
    if not heads:
        return text
    head = grammar.rng.choice(heads)
    indent = " " * (len(lines[head]) - len(lines[head].lstrip()) + 4)
    new = [indent + line for line in grammar.statement().split("\n")]
    return "\n".join([*lines[: head + 1], *new, *lines[head + 1 :]])


def _with_definition(text: str, grammar: Grammar) -> str:
    defined = grammar.definition()
    uses = ("", "A().peek()", "A.me()", "A().m()", "A().m().peek(info)", "grab(info)", "A()")
    use = grammar.pick(*uses)
    return _with_line(defined + text, use)


def _with_line(text: str, line: str) -> str:
    lines = text.split("\n")
    for number, each in enumerate(lines):
        if _is_head(each, ("def compute", "def reward_fn", "def judge")):
            indent = " " * (len(each) - len(each.lstrip()) + 4)
            new = f"{indent}{line or 'pass'}"
            return "\n".join([*lines[: number + 1], new, *lines[number + 1 :]])
    return text


def _is_head(line: str, begins: str | tuple[str, ...]) -> bool:
    return line.lstrip().startswith(begins) and line.rstrip().endswith(":")
