"""Programs by the thousand that try to own a name, a decorator or `self`; also a worker's entry."""

import builtins
import itertools
import keyword
import re
import types
from collections.abc import Iterator

import numpy as np

from telic.sandbox._allowed import MODULES
from telic.sandbox._rules import DECORATORS, METHODS

NAMES = sorted(
    name
    for name in dir(builtins)  # extension modules add names such as __MUJOCO_ERROR_FatalError
    if not keyword.iskeyword(name) and (name[0] != "_" or name.endswith("__"))
)
OBJECTS = (object, type, int, [], {}, "", len, types, np.zeros(1), np.add, ValueError(), iter([]))
DUNDERS = sorted(
    {name for each in OBJECTS for name in dir(each) if name.startswith("__")}
    | {name for name in dir(lambda: 0) if name.startswith("__")}
    | {"__import__", "__builtins__", "__file__", "__prepare__", "__mro_entries__", "__wrapped__"}
)
REWARD = "def reward_fn(obs, action, next_obs, info):\n    return 0.0, {}\n"
BINDINGS = (
    "{0} = 1",
    "{0}: int = 1",
    "x, *{0} = [1, 2]",
    "for {0} in [1]:\n    pass",
    "with np.errstate() as {0}:\n    pass",
    "try:\n    pass\nexcept ValueError as {0}:\n    pass",
    "def {0}(x):\n    return x",
    "class {0}:\n    pass",
    "def f({0}):\n    return 1",
    "def f(x, /, y=1, *{0}):\n    return 1",
    "def f(*, {0}=1):\n    return 1",
    "def f[{0}](x):\n    return 1",
    "def f[T = {0}](x):\n    return 1",
    "class A[{0}]:\n    pass",
    "def f(**{0}):\n    return 1",
    "f = lambda {0}: 1",
    "x = ({0} := 1)",
    "x = [1 for {0} in [1]]",
    "match [1]:\n    case [{0}]:\n        pass",
    "match [1]:\n    case [*{0}]:\n        pass",
    "match {{}}:\n    case {{'k': 1, **{0}}}:\n        pass",
    "match 1:\n    case int(x) as {0}:\n        pass",
    "class A:\n    {0} = 1",
    "class A:\n    def {0}(self):\n        return 1",
    "class A:\n    def m(self, {0}):\n        return 1",
    "del {0}",
)
READS = (
    "x = {0}",
    "x = obs.{0}",
    "x = np.{0}",
    "x = (lambda: 0).{0}",
    "x = getattr(obs, '{0}')",
    "x = hasattr(print, '{0}')",
    "x = dict({0}=1)",
    "x = [obs.{0} for _ in [1]]",
    "x = f'{{obs.{0}}}'",
    "class A:\n    def m(self):\n        return self.{0}",
    "class A:\n    def m(self):\n        self.{0} = 1",
    "class A:\n    def m(self):\n        return super().{0}",
    "class A:\n    @classmethod\n    def m(cls):\n        return cls.{0}",
    "class A:\n    {0} = 1",
    "match 1:\n    case np.{0}:\n        pass",
)


def imports() -> Iterator[str]:
    """Yield every way to import a module, or a member of it, under a builtin's name."""
    for (path, offered), name in itertools.product(MODULES.items(), (*NAMES, "self")):
        yield f"import {path} as {name}\n{REWARD}"
        member = next(iter(sorted(offered - {"*"})), "speed")
        yield f"from {path} import {member} as {name}\n{REWARD}"


def bindings() -> Iterator[str]:
    """Yield every way to bind a builtin's name, at the top and in a function."""
    for form, name in itertools.product(BINDINGS, NAMES):
        statement = form.format(name)
        yield f"{statement}\n{REWARD}"
        inner = "\n".join(f"    {line}" for line in statement.splitlines())
        yield f"def outer(obs):\n{inner}\n{REWARD}"


ROLES = (
    *BINDINGS,
    "import numpy as {0}",
    "from numpy import float64 as {0}",
    "from telic import RewardFunction as {0}",
    "def put(x):\n    nonlocal {0}\n    {0} = x",
    "class Inner:\n    def put(own, x):\n        nonlocal {0}\n        {0} = x",
    "class Inner:\n    @staticmethod\n    def put(x):\n        nonlocal {0}\n        {0} = x",
)
PARAMETER = re.compile(r"(def \w+\(|lambda ).*\{0\}")
"""a parameter is a new variable, which is not treated as `self`"""


def roles() -> Iterator[str]:
    """Yield every way to give another object the name of a method's `self` or of a class."""
    for form, own in itertools.product(ROLES, ("me", "this", "owner")):
        statement = form.format(own)
        inner = "\n".join(f"        {line}" for line in statement.splitlines())
        method = f"    def method({own}, obs):\n{inner}\n        return {own}.gi_frame\n"
        if not PARAMETER.search(form):
            yield f"class Own:\n    gi_frame = 0\n{method}{REWARD}"
            yield f"class Own:\n    gi_frame = 0\n{method}{statement}\n{REWARD}"
        if form.startswith(("class {0}:", "from telic")):  # which is a class, too
            continue
        for base in ("Own", "RewardFunction"):
            statement = form.format(base)
            inner = "\n".join(f"    {line}" for line in statement.splitlines())
            use = f"class Mine({base}):\n    pass\n"
            yield f"class Own:\n    pass\n{statement}\n{use}{REWARD}"
            yield f"class Own:\n    pass\ndef outer(obs):\n{inner}\n    return 1\n{use}{REWARD}"
    for base in ("k.Own", "[Own][0]", "k['Own']", "Own or int", "getattr(k, 'Own')", "np.Own"):
        yield f"class Own:\n    pass\nk = Own()\nclass Mine({base}):\n    pass\n{REWARD}"


def dunders() -> Iterator[str]:
    """Yield every way to read, write or define a name of Python's own."""
    for form, name in itertools.product((*READS, *BINDINGS), DUNDERS):
        is_method = "def {0}(self)" in form and name in METHODS
        if not is_method and not (form == "x = {0}" and name == "__name__"):
            yield f"obs = 0\n{form.format(name)}\n{REWARD}"


def decorators() -> Iterator[str]:
    """Yield every function, class and expression as a decorator of functions and classes."""
    members = (f"{p}.{n}" for p, names in MODULES.items() for n in sorted(names - {"*"})[:12])
    for what in (*NAMES, *members, "mine", "(lambda f: f)", "A", "A()", "A.m", "obs.f", "[1][0]"):
        for target in (
            "class B:\n    @{0}\n    def m(self):\n        return self",
            "@{0}\nclass B:",
        ):
            if "class B:\n    @" in target and what in DECORATORS:
                continue
            body = "" if target.startswith("class") else "\n    x = 1"
            made = "class A:\n    def m(self):\n        return 1\ndef mine(f):\n    return f\n"
            yield f"{made}{target.format(what)}{body}\n{REWARD}"


RECEIVERS = (
    *("obs", "info", "(lambda: 0)", "print", "len", "[].append", "ValueError('x')", "np.add"),
    *(
        "(i for i in [1])",
        "np.vectorize(len)",
        "A()",
        "A().m",
        "{}.keys()",
        "range(3)",
        "iter([1])",
    ),
    *(
        "np.errstate()",
        "np.float64(1)",
        "torch.no_grad()",
        "torch.zeros(2)",
        "deque()",
        "map(len, [])",
    ),
)
ATTRIBUTES = (
    *("gi_frame", "f_back", "f_globals", "pyfunc", "func", "mro", "args", "call", "ctypes", "base"),
    *("tb_frame", "cr_frame", "co_consts", "default_factory", "default_call", "function", "memory"),
)


def takeovers() -> Iterator[str]:
    """Yield programs that pass foreign objects as `self`, or ask them for what leads out."""
    ways = (
        "A().m({0})",
        "A.m({0})",
        "A().s({0})",
        "A.c({0})",
        "list(map(A().m, [{0}]))[0]",
        "np.vectorize(A().m, otypes=[object])([1])",
        "sorted([{0}], key=A().m)[0]",
        "next(filter(A().m, [{0}]))",
        "getattr({0}, '{1}', None)",
        "[x.{1} for x in [{0}]][0]",
        "(lambda self: self.{1})({0})",
        "super().{1}",
    )
    for way, receiver, name in itertools.product(ways, RECEIVERS, ATTRIBUTES):
        body = (
            # Its own attribute of that name lets the check pass; only the guard knows the object.
            f"from collections import deque\nclass A:\n    {name} = 0\n"
            f"    def m(self, *others):\n        return [each.{name} for each in others]\n"
            f"    @staticmethod\n    def s(self):\n        return self.{name}\n"
            f"    @classmethod\n    def c(cls, self):\n        return self.{name}\n"
        )
        asked = way.format(receiver, name)
        yield f"{body}def reward_fn(obs, action, next_obs, info):\n    return {asked}\n"


# ---- in a worker

ESCAPES = (
    *(types.ModuleType, types.FrameType, types.CodeType, types.TracebackType, type),
    *(types.MappingProxyType, types.GetSetDescriptorType, types.MemberDescriptorType),
)


def run(state, payload, channel):
    """Run programs that the check accepted; report those that got hold of what leads out."""
    from telic.errors import RefusedCode
    from telic.sandbox._guard import is_own
    from telic.sandbox.source import compile_source, namespace

    counts, escaped = {"refused": 0, "stopped": 0, "ran": 0}, []
    channel.heartbeat(600.0, "running programs")
    for program in payload["programs"]:
        scope = namespace()
        try:
            exec(compile_source(program, "program.py"), scope)
            result = scope["reward_fn"](np.zeros(4), np.ones(2), np.zeros(4), {"x": 1.0})
        except RefusedCode:
            counts["refused"] += 1
            continue
        except Exception:
            counts["stopped"] += 1
            continue
        counts["ran"] += 1
        values = result if isinstance(result, list) else [result]
        leads_out = any(isinstance(x, ESCAPES) and not is_own(type(x)) for x in values)
        escaped += [program] if leads_out else []
    return {"counts": counts, "escaped": escaped}
