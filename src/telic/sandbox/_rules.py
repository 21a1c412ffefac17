"""Check untrusted code against the allow-list of syntax, names and attributes.

Principles:
- Only listed node types, builtins and module members are allowed. All others are refused.
- Modules, classes and getattr cannot be assigned or passed, so they have no other names.
- An attribute may be read only if some kind of object offers it (`_offered`) or the source defines
  it; the guard checks at run time whether the actual object offers it.
- Attributes are written, and private ones read, only on `self` inside a method. As classes are not
  values and methods are not loaded in a class body, `self` is always an object of this source.
"""

# ruff: noqa: N802 - visit_* methods carry the names of Python's syntax nodes

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from telic.core.text import closest
from telic.sandbox import _allowed as allowed
from telic.sandbox._allowed import BUILTINS, CLASSES, PREDEFINED, SYNTAX
from telic.sandbox._offered import EVERYTHING

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
INPUTS = frozenset({"obs", "action", "next_obs", "info", "mj_data", "mj_model"})
DECORATORS = frozenset({"property", "staticmethod", "classmethod"})
CALL_ONLY = frozenset({"getattr", "hasattr", "super"})
METHODS = frozenset({"__init__", "__call__"})
EVERY_BUILTIN = frozenset(dir(builtins))
"""names that no source may bind, because readers rely on their meaning"""


class RefusedConstruct(NamedTuple):
    """Refused construct, with its position, a description and a suggested replacement."""

    line: int
    what: str
    fix: str


class Inspection(NamedTuple):
    """Result of an inspection. The guard does not rewrite attributes that are exempt."""

    refusals: list[RefusedConstruct]
    """ordered by line"""
    exempt: set[ast.AST]
    """attributes of modules and of `self`"""
    methods: dict[ast.AST, str]
    """functions of classes, with the name of their `self` parameter"""


class LexicalScope(NamedTuple):
    """Scope during the inspection, with the name of `self` and the methods of a class body."""

    self_name: str | None = None
    methods: frozenset[str] | None = None


def why_not_offered(name: str) -> str:
    """Return the message for an attribute that no kind of object allows."""
    near = closest(name, EVERYTHING)
    return f"Did you mean {' or '.join(near)}?" if near else "No available object has it: remove it"


def inspect(tree: ast.Module, modules: Mapping[str, Collection[str]]) -> Inspection:
    """Return a parsed source's refused constructs, and the attributes exempt from the guard."""
    inspector = _Inspector(gather(tree, frozenset(modules)), modules)
    for node in filter(lambda each: type(each) not in SYNTAX, ast.walk(tree)):
        what, fix = allowed.REFUSED_SYNTAX.get(type(node), (type(node).__name__, "Rewrite it."))
        inspector.refuse(node, what, fix)
    inspector.visit(tree, LexicalScope())
    refusals = sorted(set(inspector.refusals))
    return Inspection(refusals, inspector.exempt, inspector.methods)


class _Inspector:
    """AST visitor that collects constructs that are not on the allow-list."""

    def __init__(self, bound: Bindings, modules: Mapping[str, Collection[str]]) -> None:
        self.bound = bound
        self.modules = modules
        self.refusals: list[RefusedConstruct] = []
        self.exempt: set[ast.AST] = set()
        self.methods: dict[ast.AST, str] = {}
        self._excused: set[int] = set()
        self._called: set[int] = set()

    def refuse(self, node: ast.AST, what: str, fix: str) -> None:
        self.refusals.append(RefusedConstruct(getattr(node, "lineno", 1), what, fix))

    def visit(self, node: ast.AST, scope: LexicalScope) -> None:
        for name in names_bound_by(node):
            self.check_binding(node, name, scope)
        getattr(self, f"visit_{type(node).__name__}", self.visit_children)(node, scope)

    def visit_children(self, node: ast.AST, scope: LexicalScope) -> None:
        self.visit_all(ast.iter_child_nodes(node), scope)

    def visit_all(self, nodes: Iterable[ast.AST | None], scope: LexicalScope) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, scope)

    def excuse(self, node: ast.expr) -> None:
        """Allow classes that are not used as values, e.g. base classes or types in annotations."""
        match node:
            case ast.Name() | ast.Attribute():
                self._excused.add(id(node))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for each in parts:
                    self.excuse(each)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                self.excuse(left)
                self.excuse(right)
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                # list[A], not d[A]: a dictionary could return the class
                if name not in self.bound.names:
                    self.excuse(inner)
            case _:
                pass

    # Names

    def check_binding(self, node: ast.AST, name: str, scope: LexicalScope) -> None:
        """Refuse assignments to names that must keep their meaning for other checks."""
        is_method = isinstance(node, ast.FunctionDef) and scope.methods is not None
        if is_dunder(name) and not (is_method and name in METHODS):
            self.refuse(node, f'the name "{name}"', "Choose a name without double underscores.")
        elif name in EVERY_BUILTIN:
            self.refuse(node, f'a new value for the builtin "{name}"', "Choose another name.")
        elif name in self.bound.modules:
            self.refuse(node, f'a new value for the module "{name}"', "Choose another name.")
        elif name in self.bound.owners or (
            name in self.bound.classes and not isinstance(node, ast.ClassDef)
        ):
            self.refuse(node, f'a new value for "{name}"', "Choose another name.")

    def visit_Name(self, node: ast.Name, scope: LexicalScope) -> None:
        name = node.id
        is_defined = name in self.bound.names or name in self.bound.imported
        if not isinstance(node.ctx, ast.Load):
            return
        if scope.methods and name in scope.methods:
            self.refuse(node, f'the method "{name}" as a value', f"Call self.{name}(...).")
        elif is_dunder(name) and name != "__name__":
            self.refuse(
                node, f'the name "{name}"', allowed.REFUSED_BUILTINS.get(name, allowed.NUMBERS_ONLY)
            )
        elif name in self.bound.modules:
            self.refuse(node, f'the module "{name}" as a value', f"Call {name}.function(...).")
        elif name in self.bound.classes or name == "cls":
            if id(node) not in self._excused | self._called:
                self.refuse(node, f'the class "{name}" as a value', f"Create one: {name}(...).")
        elif name in CALL_ONLY and id(node) not in self._called:
            self.refuse(node, f'"{name}" as a value', f"Call it: {name}(...).")
        elif name in DECORATORS and id(node) not in self._excused:
            self.refuse(node, f'"{name}" as a value', f"Put @{name} above the method.")
        elif not is_defined and name not in BUILTINS and name != "__name__":
            self.refuse_unknown(node)

    def refuse_unknown(self, node: ast.Name) -> None:
        if node.id in allowed.REFUSED_BUILTINS:
            self.refuse(node, f'"{node.id}"', allowed.REFUSED_BUILTINS[node.id])
            return
        near = closest(node.id, self.bound.names | self.bound.imported | BUILTINS)
        fix = f"Did you mean {' or '.join(near)}?" if near else "Define it, or remove it."
        self.refuse(node, f'the unknown name "{node.id}"', fix)

    def visit_Nonlocal(self, node: ast.Nonlocal, scope: LexicalScope) -> None:
        for name in self.bound.fixed.intersection(node.names):
            self.refuse(node, f'nonlocal "{name}"', "Choose another name.")

    # Imports and members of modules

    def visit_Import(self, node: ast.Import, scope: LexicalScope) -> None:
        for alias in node.names:
            self.check_import(node, alias.name)
            if self.bound.modules.get(alias.asname or alias.name) not in {alias.name, None}:
                self.refuse(node, f'two modules named "{alias.asname}"', "Choose another name.")

    def visit_ImportFrom(self, node: ast.ImportFrom, scope: LexicalScope) -> None:
        path = node.module or ""
        if node.level:
            self.refuse(node, "a relative import", allowed.OFFERED)
        elif self.check_import(node, path):
            for alias in node.names:
                if alias.name == "*":
                    self.refuse(node, "import *", "Import each name explicitly.")
                elif f"{path}.{alias.name}" not in self.modules:
                    self._excused.add(id(node))
                    self.check_member(node, path, alias.name)

    def check_import(self, node: ast.Import | ast.ImportFrom, path: str) -> bool:
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            is_class = isinstance(node, ast.ImportFrom) and alias.name in CLASSES
            fixed = self.bound.owners if is_class else self.bound.fixed
            is_taken = bound in EVERY_BUILTIN or bound in fixed
            if is_taken or (is_dunder(bound) and path != "__future__"):
                self.refuse(node, f'an import as "{bound}"', "Choose another name.")
            elif bound in self.bound.modules and bound in self.bound.names:
                self.refuse(node, f'"{bound}" as a module and as a value', "Choose another name.")
        if path in self.modules:
            return True
        top = path.partition(".")[0]
        fix = allowed.REFUSED_IMPORTS.get(top, allowed.OFFERED)
        if any(alias.name in CLASSES for alias in node.names):
            fix = "Use: from telic import RewardFunction"
        self.refuse(node, f'the import of "{path}"', fix)
        return False

    def module_of(self, node: ast.expr) -> str | None:
        """Return the module that an expression refers to, e.g. "numpy.linalg" for np.linalg."""
        if isinstance(node, ast.Name):
            return self.bound.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            path = f"{self.module_of(node.value)}.{node.attr}"
            return path if path in self.modules else None
        return None

    def check_member(self, node: ast.AST, path: str, name: str) -> None:
        offered = self.modules.get(path)
        if offered is None:  # its import has already been refused
            return
        fix = allowed.why_not_member(path, name, offered)
        if fix:
            self.refuse(node, f'"{path}.{name}"', fix)
        elif name in CLASSES and id(node) not in self._excused:
            self.refuse(node, f'the class "{name}" as a value', f"Derive from it: ({name}).")

    # Attributes and writes

    def visit_Attribute(self, node: ast.Attribute, scope: LexicalScope) -> None:
        module = self.module_of(node.value)
        on_self = isinstance(node.value, ast.Name) and node.value.id == scope.self_name
        if module is not None or on_self or not isinstance(node.ctx, ast.Load):
            chain: ast.expr = node  # np.linalg.norm: also np.linalg
            while isinstance(chain, ast.Attribute):
                self.exempt.add(chain)
                chain = chain.value
        if not isinstance(node.ctx, ast.Load):
            self.check_attribute_write(node, on_self)
        if module is not None and self.module_of(node) is not None:
            self.refuse(node, f'the module "{node.attr}" as a value', f"Call {node.attr}.f(...).")
        elif module is not None:
            self.check_member(node, module, node.attr)
        else:
            why = allowed.why_not_attribute(node.attr)
            is_own = on_self and node.attr in self.bound.attributes and not is_dunder(node.attr)
            if why and not is_own:
                self.refuse(node, f'the attribute "{node.attr}"', why)
            elif node.attr in self.bound.classes and id(node) not in self._excused:
                self.refuse(node, f'the class "{node.attr}" as a value', allowed.NO_CLASSES)
            elif node.attr not in EVERYTHING | self.bound.attributes:
                self.refuse(node, f'the attribute "{node.attr}"', why_not_offered(node.attr))
            if isinstance(node.value, ast.Name) and node.attr not in self.bound.methods:
                self.excuse(node.value)
            self.visit(node.value, scope)

    def check_attribute_write(self, node: ast.Attribute, on_self: bool) -> None:
        if isinstance(node.ctx, ast.Del) or not on_self:
            verb = "deletion of" if isinstance(node.ctx, ast.Del) else "assignment to"
            self.refuse(node, f'{verb} the attribute "{node.attr}"', allowed.STATE)

    def check_write(self, target: ast.expr, what: str) -> None:
        """Refuse in-place changes of the reward's inputs."""
        root = root_of(target)
        if isinstance(root, ast.Name) and root.id in INPUTS - self.bound.assigned:
            fix = f"The trainer owns {root.id}: create a new value, as in x = {root.id} + 0."
            self.refuse(target, what, fix)

    def visit_Subscript(self, node: ast.Subscript, scope: LexicalScope) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.check_write(node, "a change of an input")
        self.visit_children(node, scope)

    def visit_AugAssign(self, node: ast.AugAssign, scope: LexicalScope) -> None:
        """Check statements like `obs += 1`, which modify the array in place."""
        if isinstance(node.target, ast.Name) and node.target.id in INPUTS:
            name = node.target.id
            self.refuse(node, f'an in-place change of "{name}"', f"Write {name} = {name} + ...")
        self.visit_children(node, scope)

    def visit_AnnAssign(self, node: ast.AnnAssign, scope: LexicalScope) -> None:
        self.excuse(node.annotation)
        self.visit_children(node, scope)

    def visit_MatchValue(self, node: ast.MatchValue, scope: LexicalScope) -> None:
        if isinstance(node.value, ast.Attribute) and self.module_of(node.value.value) is None:
            self.refuse(node, "an attribute in a pattern", "Compare with == in an if.")
        self.visit_children(node, scope)

    def visit_ExceptHandler(self, node: ast.ExceptHandler, scope: LexicalScope) -> None:
        if node.type is None:
            self.refuse(node, "a bare except", "Use except Exception, or a narrower error.")
        self.visit_children(node, scope)

    # Calls

    def visit_Call(self, node: ast.Call, scope: LexicalScope) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            self._called.add(id(function))
            self.check_named_call(node, function.id)
        elif isinstance(function, ast.Attribute):
            name = function.attr
            if name == "__init__" and isinstance(function.value, ast.Call):
                parent = function.value.func
                if isinstance(parent, ast.Name) and parent.id == "super":
                    self.exempt.add(function)
                    function = function.value
            elif name.endswith("_") or name in allowed.CHANGES_ITS_OBJECT:
                self.check_write(function.value, f'"{name}", which changes an input')
        for keyword in node.keywords:
            if keyword.arg and is_dunder(keyword.arg):
                self.refuse(node, f'the argument "{keyword.arg}"', "Choose another name.")
        self.visit_all([function, *node.args, *node.keywords], scope)

    def check_named_call(self, node: ast.Call, name: str) -> None:
        if name in {"isinstance", "issubclass"} and len(node.args) == 2:
            self.excuse(node.args[1])
        elif name == "super" and (node.args or node.keywords):
            self.refuse(node, "super(...) with arguments", "Use super().")
        elif name in {"getattr", "hasattr"}:
            match node.args:
                case [_, ast.Constant(value=str(attribute)), *_]:
                    why = allowed.why_not_attribute(attribute)
                    if why is None and attribute in self.bound.classes:
                        why = allowed.NO_CLASSES
                case _:
                    why = f'Pass the name as a plain string: {name}(x, "name").'
            if why:
                self.refuse(node, f"this {name}(...)", why)

    # Definitions

    def visit_ClassDef(self, node: ast.ClassDef, scope: LexicalScope) -> None:
        if node.keywords:
            self.refuse(node, "a metaclass or class keyword", "Use class Name(RewardFunction):")
        for base in node.bases:
            is_member = isinstance(base, ast.Attribute) and self.module_of(base.value) is not None
            name = base.attr if is_member else getattr(base, "id", "")
            if name not in self.bound.classes:
                self.refuse(node, "this base class", "Derive from RewardFunction or from nothing.")
            self.excuse(base)
        self.check_decorators(node)
        self.visit_all([*node.bases, *node.keywords, *node.decorator_list], scope)
        self.visit_all(node.body, LexicalScope(scope.self_name, methods_of(node)))

    def check_decorators(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            is_plain = isinstance(decorator, ast.Name) and decorator.id in DECORATORS
            if not is_plain or isinstance(node, ast.ClassDef):
                fix = "Only @property, @staticmethod and @classmethod: call the function instead."
                self.refuse(decorator, "this decorator", fix)
            self._excused.add(id(decorator))

    def visit_FunctionDef(self, node: ast.FunctionDef, scope: LexicalScope) -> None:
        self.check_decorators(node)
        for annotation in (*(each.annotation for each in parameters(node)), node.returns):
            if annotation is not None:
                self.excuse(annotation)
                self.visit(annotation, scope)
        self.visit_all(node.decorator_list, scope)
        inner = self.enter(node, scope)
        if scope.methods is not None:
            inner = LexicalScope(self.proper_self(node))
            if inner.self_name is not None:
                self.methods[node] = inner.self_name
        self.visit_all(node.body, inner)

    def proper_self(self, node: ast.FunctionDef) -> str | None:
        """Return the name of a method's `self` parameter, or None."""
        if _is_decorated(node, "classmethod") and _first_parameter(node) != "cls":
            self.refuse(node, "this class method", "Call its first parameter cls.")
        return self_of(node)

    def visit_Lambda(self, node: ast.Lambda, scope: LexicalScope) -> None:
        """Check a lambda. Its first parameter is never treated as `self`."""
        self.visit(node.body, self.enter(node, scope))

    def enter(self, node: Function, scope: LexicalScope) -> LexicalScope:
        names = [parameter.arg for parameter in parameters(node)]
        for parameter in parameters(node):
            name = parameter.arg
            is_taken = name in EVERY_BUILTIN or name in (*self.bound.modules, *self.bound.classes)
            if is_dunder(name) or is_taken:
                self.refuse(parameter, f'the parameter "{name}"', "Choose another name.")
        self.visit_all([*node.args.defaults, *node.args.kw_defaults], scope)
        return LexicalScope(None if scope.self_name in names else scope.self_name)


# ---- what a source binds


@dataclass(slots=True)
class Bindings:
    """Names that a source binds. These names are collected before their uses are checked."""

    names: set[str] = field(default_factory=set[str])
    """bound other than by an import"""
    assigned: set[str] = field(default_factory=set[str])
    """names that are bound by other means than imports and parameters"""
    imported: set[str] = field(default_factory=set[str])
    modules: dict[str, str] = field(default_factory=dict[str, str])
    """names bound to a module, with its path: {"np": "numpy"}"""
    classes: set[str] = field(default_factory=set[str])
    methods: set[str] = field(default_factory=set[str])
    attributes: set[str] = field(default_factory=set[str])
    """attributes that the source defines, as self.x = ... or as names in class bodies"""
    owners: set[str] = field(default_factory=lambda: {"self"})
    """names of the parameter `self` in all methods"""

    @property
    def fixed(self) -> set[str]:
        """Names that only class statements and methods bind, so that their meaning is known."""
        return self.owners | self.classes


def is_dunder(name: str) -> bool:
    """Return whether a name is one of Python's double-underscore names."""
    return name.startswith("__") and name.endswith("__")


def root_of(node: ast.expr) -> ast.expr:
    """Return the root of an expression, e.g. `a` for `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that this node binds, except by parameters and imports."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)):
            yield name
        case _:
            pass


def parameters(node: Function) -> list[ast.arg]:
    """Return all parameters of a function or lambda in order."""
    spec = node.args
    rest = [each for each in (spec.vararg, spec.kwarg) if each is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest]


def self_of(method: ast.FunctionDef) -> str | None:
    """Return the name of a method's `self` parameter, or None."""
    is_bound = not (_is_decorated(method, "classmethod") or _is_decorated(method, "staticmethod"))
    return _first_parameter(method) if is_bound else None


def _first_parameter(node: ast.FunctionDef) -> str | None:
    return next((each.arg for each in [*node.args.posonlyargs, *node.args.args]), None)


def _is_decorated(node: ast.FunctionDef, name: str) -> bool:
    return any(getattr(each, "id", "") == name for each in node.decorator_list)


def in_class_body(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the scope of a class body, including nodes in nested blocks."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | Function):
            yield from in_class_body(child)


def methods_of(node: ast.ClassDef) -> frozenset[str]:
    """Return the names of the functions defined in a class body."""
    inside = in_class_body(node)
    return frozenset(
        each.name for each in inside if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def gather(tree: ast.Module, paths: frozenset[str]) -> Bindings:
    """Collect the names that the source binds. `paths` are the dotted names of known modules."""
    bindings = Bindings()
    for node in ast.walk(tree):
        bindings.assigned.update(names_bound_by(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                bindings.names.update(each.arg for each in parameters(node))
            case ast.ClassDef():
                bindings.classes.add(node.name)
                bindings.methods |= methods_of(node)
                for each in in_class_body(node):
                    bindings.attributes.update(names_bound_by(each))
                    if isinstance(each, ast.FunctionDef) and (own := self_of(each)):
                        bindings.owners.add(own)
            case ast.Attribute(ctx=ast.Store(), attr=attribute):
                bindings.attributes.add(attribute)
            case ast.Import() | ast.ImportFrom():
                _gather_import(node, paths, bindings)
            case _:
                pass
    bindings.names |= bindings.assigned
    for name, path in PREDEFINED.items():
        if name not in bindings.names | bindings.imported:
            bindings.modules[name] = path
    bindings.classes |= CLASSES - bindings.names
    return bindings


def _gather_import(
    node: ast.Import | ast.ImportFrom, paths: frozenset[str], bindings: Bindings
) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            top = alias.name.partition(".")[0]
            bindings.imported.add(alias.asname or top)
            bindings.modules[alias.asname or top] = alias.name if alias.asname else top
            continue
        bound = alias.asname or alias.name
        path = f"{node.module}.{alias.name}"
        bindings.imported.add(bound)
        if path in paths:
            bindings.modules[bound] = path
        elif alias.name in CLASSES:
            bindings.classes.add(bound)
