"""The same repository said otherwise: other names, other folders, calls wrapped in partial."""

from __future__ import annotations

import ast
import builtins
import random
import re

from scripts.audit_page import Miniature

KEPT = frozenset({"main", "__init__", "setup", "conftest", *dir(builtins)})
"""names that the language or a tool gives a meaning to"""
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "jetty",
    "knoll",
    "larch",
    "maple",
    "nadir",
]


def functions_renamed(miniature: Miniature, seed: int) -> Miniature:
    """Give every function of the top level another name, wherever it is used."""
    draw = random.Random(seed)
    names = sorted(_top_functions(miniature) - _other_uses(miniature))
    new = {name: f"{draw.choice(WORDS)}_{index}" for index, name in enumerate(names)}
    files = dict(miniature.files)
    for path, text in miniature.files.items():
        if path.endswith(".py"):
            files[path] = ast.unparse(_Renamed(new, _imported(text, new)).visit(ast.parse(text)))
        elif path.endswith((".toml", ".cfg")):
            files[path] = re.sub(r":(\w+)", lambda m: f":{new.get(m[1], m[1])}", text)
    return miniature._replace(name=f"{miniature.name} with other functions", files=files)


def files_renamed(miniature: Miniature, seed: int) -> Miniature:
    """Give every Python file that is not part of a package another name."""
    draw = random.Random(seed)
    stems = sorted(_loose_stems(miniature))
    new = {stem: f"{draw.choice(WORDS)}{index}" for index, stem in enumerate(stems)}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, new))})\.py\b") if new else None

    def spelled(text: str) -> str:
        return pattern.sub(lambda m: f"{new[m[1]]}.py", text) if pattern else text

    files: dict[str, str] = {}
    for path, text in miniature.files.items():
        changed = spelled(text)
        if path.endswith(".py"):
            for stem, name in new.items():
                changed = re.sub(
                    rf"^(\s*)(from|import) {stem}\b", rf"\1\2 {name}", changed, flags=re.M
                )
        files[spelled(path)] = changed
    facts = _spelled(miniature.facts, spelled)
    return Miniature(f"{miniature.name} with other files", files, facts)


def moved(miniature: Miniature, seed: int) -> Miniature:
    """Put everything but the main page one folder down."""
    folder = random.Random(seed).choice(WORDS)
    paths = [path for path in miniature.files if not path.startswith("README")]

    def placed(text: str) -> str:
        for path in sorted(paths, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/]){re.escape(path)}", f"{folder}/{path}", text)
        return text

    files = {
        path if path.startswith("README") else f"{folder}/{path}": placed(text)
        if path.startswith("README")
        else text
        for path, text in miniature.files.items()
    }
    return Miniature(f"{miniature.name} moved", files, _spelled(miniature.facts, placed))


def partially(miniature: Miniature, seed: int) -> Miniature:
    """Call functions of the same file through functools.partial."""
    files = dict(miniature.files)
    for path, text in miniature.files.items():
        if path.endswith(".py") and "from __future__" not in text:
            tree = ast.parse(text)
            own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            files[path] = "import functools\n" + ast.unparse(_Partial(own).visit(tree))
    return miniature._replace(name=f"{miniature.name} with partial", files=files)


def _spelled(facts: dict, spelled) -> dict:
    def inner(value):
        if isinstance(value, str):
            return spelled(value)
        return [inner(each) for each in value] if isinstance(value, list) else value

    return {key: inner(value) for key, value in facts.items()}


def _top_functions(miniature: Miniature) -> set[str]:
    found: set[str] = set()
    for path, text in miniature.files.items():
        if path.endswith(".py"):
            tree = ast.parse(text)
            for node in tree.body:
                # what a framework makes a command of is named for its users
                if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                    found.add(node.name)
    return found - KEPT


def _other_uses(miniature: Miniature) -> set[str]:
    """Names that are also attributes, arguments, methods, modules or words of texts."""
    used: set[str] = set()
    for path, text in miniature.files.items():
        used |= set(path.removesuffix(".py").split("/"))
        if not path.endswith(".py"):
            used |= (
                set(re.findall(r"\w+", text)) if path.endswith((".yaml", ".yml", ".gin")) else set()
            )
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.arg | ast.keyword):
                used.add(node.arg or "")
            elif isinstance(node, ast.ClassDef):
                used |= {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                used.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used |= set(re.findall(r"\w+", node.value))
    return used


def _loose_stems(miniature: Miniature) -> set[str]:
    paths = [path for path in miniature.files if path.endswith(".py")]
    stems = [path.rpartition("/")[2].removesuffix(".py") for path in paths]
    dotted = {
        part
        for path in paths
        for node in ast.walk(ast.parse(miniature.files[path]))
        for part in _dotted_parts(node)
    }
    texts = " ".join(text for text in miniature.files.values())
    told = re.findall(r"-\w*m \S+|[\w.]+:\w+|_target_: \S+", texts)
    modules = set(re.findall(r"\w+", " ".join(told)))
    names = {
        alias.name
        for path in paths
        for node in ast.walk(ast.parse(miniature.files[path]))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {
        stem
        for stem in stems
        if stem not in KEPT | dotted | modules | names
        and stems.count(stem) == 1
        and stem.isidentifier()
    } - {"main"}


def _dotted_parts(node: ast.AST) -> list[str]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return [part for name in names if "." in name for part in name.split(".")]


def _imported(text: str, new: dict[str, str]) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in new
    }


class _Renamed(ast.NodeTransformer):
    def __init__(self, new: dict[str, str], imported: set[str]) -> None:
        self.new = new
        self.imported = imported

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.new.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.new.get(node.id, node.id)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        for alias in node.names:
            alias.name = self.new.get(alias.name, alias.name)
        return node


class _Partial(ast.NodeTransformer):
    def __init__(self, own: set[str]) -> None:
        self.own = own

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_own = isinstance(node.func, ast.Name) and node.func.id in self.own
        if not is_own or any(isinstance(each, ast.Starred) for each in node.args):
            return node
        wrapped = ast.Call(
            func=ast.Attribute(ast.Name("functools", ast.Load()), "partial", ast.Load()),
            args=[node.func, *node.args],
            keywords=node.keywords,
        )
        return ast.fix_missing_locations(ast.Call(func=wrapped, args=[], keywords=[]))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]
        return node


# ---------------------------------------------------------------------------- parsers

_WORK = """import csv
import time

import torch
from torch.utils.tensorboard import SummaryWriter


def pursue(seed, steps, cloud, out):
    torch.manual_seed(seed)
    if cloud:
        import wandb

        wandb.init(project="family")
    board = SummaryWriter(f"{out}/{int(time.time())}")
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(steps):
        net(torch.zeros(4)).sum().backward()
        optimizer.step()
        board.add_scalar("return", 0.0, step)
    torch.save(net, f"{out}/net.pt")
"""
_MAIN = {
    "argparse": (
        """import argparse
from work import pursue

def go():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--cloud", action="store_true")
    parser.add_argument("--out", default="runs")
    given = parser.parse_args()
    pursue(given.seed, given.steps, given.cloud, given.out)

if __name__ == "__main__":
    go()
""",
        ["--seed", "{seed}"],
        "argparse",
    ),
    "absl": (
        """from absl import app, flags
from work import pursue

_S = flags.DEFINE_integer("seed", 3, "Seed.")
_N = flags.DEFINE_integer("steps", 100, "Steps.")
_C = flags.DEFINE_bool("cloud", False, "Upload.")
_O = flags.DEFINE_string("out", "runs", "Folder.")

def go(_):
    pursue(_S.value, _N.value, _C.value, _O.value)

if __name__ == "__main__":
    app.run(go)
""",
        ["--seed={seed}"],
        "custom",
    ),
    "click": (
        """import click
from work import pursue

@click.command()
@click.option("--seed", default=3)
@click.option("--steps", default=100)
@click.option("--cloud", is_flag=True, default=False)
@click.option("--out", default="runs")
def go(seed, steps, cloud, out):
    pursue(seed, steps, cloud, out)

if __name__ == "__main__":
    go()
""",
        ["--seed", "{seed}"],
        "custom",
    ),
    "typer": (
        """import typer
from work import pursue

def go(seed: int = 3, steps: int = 100, cloud: bool = False, out: str = "runs"):
    pursue(seed, steps, cloud, out)

if __name__ == "__main__":
    typer.run(go)
""",
        ["--seed", "{seed}"],
        "custom",
    ),
    "tyro": (
        """from dataclasses import dataclass

import tyro
from work import pursue

@dataclass
class Given:
    seed: int = 3
    steps: int = 100
    cloud: bool = False
    out: str = "runs"

if __name__ == "__main__":
    given = tyro.cli(Given)
    pursue(given.seed, given.steps, given.cloud, given.out)
""",
        ["--seed", "{seed}"],
        "tyro",
    ),
    "fire": (
        """import fire
from work import pursue

def go(seed=3, steps=100, cloud=False, out="runs"):
    pursue(seed, steps, cloud, out)

if __name__ == "__main__":
    fire.Fire(go)
""",
        ["--seed={seed}"],
        "custom",
    ),
    "simple_parsing": (
        """from dataclasses import dataclass

import simple_parsing
from work import pursue

@dataclass
class Given:
    seed: int = 3
    steps: int = 100
    cloud: bool = False
    out: str = "runs"

if __name__ == "__main__":
    given = simple_parsing.parse(Given)
    pursue(given.seed, given.steps, given.cloud, given.out)
""",
        ["--seed", "{seed}"],
        "argparse",
    ),
    "jsonargparse": (
        """from jsonargparse import CLI
from work import pursue

def go(seed: int = 3, steps: int = 100, cloud: bool = False, out: str = "runs"):
    pursue(seed, steps, cloud, out)

if __name__ == "__main__":
    CLI(go)
""",
        ["--seed", "{seed}"],
        "argparse",
    ),
    "tap": (
        """from tap import Tap
from work import pursue

class Given(Tap):
    seed: int = 3
    steps: int = 100
    cloud: bool = False
    out: str = "runs"

if __name__ == "__main__":
    given = Given().parse_args()
    pursue(given.seed, given.steps, given.cloud, given.out)
""",
        ["--seed", "{seed}"],
        "argparse",
    ),
    "hydra": (
        """import hydra
from work import pursue

@hydra.main(config_path=".", config_name="settings", version_base=None)
def go(given):
    pursue(given.seed, given.steps, given.cloud, given.out)

if __name__ == "__main__":
    go()
""",
        ["seed={seed}"],
        "hydra",
    ),
    "omegaconf": (
        """from omegaconf import OmegaConf
from work import pursue

if __name__ == "__main__":
    given = OmegaConf.merge(OmegaConf.load("settings.yaml"), OmegaConf.from_cli())
    pursue(given.seed, given.steps, given.cloud, given.out)
""",
        ["seed={seed}"],
        "yaml",
    ),
    "yaml": (
        """import sys

import yaml
from work import pursue

if __name__ == "__main__":
    with open("settings.yaml") as handle:
        given = yaml.safe_load(handle)
    pursue(given["seed"], given["steps"], given["cloud"], given["out"])
""",
        [],
        "yaml",
    ),
}
PARSERS = sorted(_MAIN)


def parsed_by(library: str, *, cloud: bool = False) -> Miniature:
    """The same small trainer with the command line of one library."""
    main, seed, config = _MAIN[library]
    if cloud:
        main = main.replace("cloud: bool = False", "cloud: bool = True")
        main = main.replace("cloud=False", "cloud=True").replace('"cloud", False', '"cloud", True')
        main = main.replace('action="store_true"', 'action="store_false"')
        main = main.replace("is_flag=True, default=False", "is_flag=True, default=True")
    word = "true" if cloud else "false"
    files = {
        "README.md": "Run `python begin.py`.",
        "begin.py": main,
        "work.py": _WORK,
        "settings.yaml": f"seed: 3\nsteps: 100\ncloud: {word}\nout: runs\n",
    }
    facts = {
        "kind": ["framework", "single_file_trainers"],
        "train": "begin.py",
        "command": ["python", "begin.py"],
        "seed": seed,
        "config": [config],
        "sinks": ["tensorboard", *(["wandb"] if cloud else [])],
        "network": cloud,
        "reward": [],
        "evaluate": "",
        "evaluation": ["none"],
        "present": [],
        "absent": ["no_entrypoint", "random_seed_by_default", "no_seed_control"],
    }
    return Miniature(f"parsed by {library}", files, facts)
