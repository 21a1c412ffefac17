"""Draft adapter.yaml from a static analysis of a repository. Unclear fields stay unknown.

Every value cites its source line. A draft is a starting point for people and agents. `telic study
adapter` checks the draft, and a smoke run verifies it. No code is imported or executed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from telic.core.config import Record
from telic.storage.files import write_text
from telic.studies._source_tree import MAX_LINE, SourceTree
from telic.studies.documents.adapter import FIELDS, Adapter
from telic.studies.documents.base import yaml_text
from telic.studies.folder import StudyFolder

_MAX_SCRIPTS, _MAX_PAGES, _MAX_SHOWN = 400, 20, 5
_PAGE = re.compile(r"(?:.*/)?(?:readme[^/]*|makefile)|docs?/[^/]+\.(?:md|rst)", re.IGNORECASE)
_PROMPT = re.compile(r"^(?:[$>]\s+)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*(?:(?:uv|poetry|pdm) run\s+)?")
_PYTHONS = re.compile(r"python[\d.]*|torchrun|accelerate")
_CONSOLE = re.compile(r"(?m)^[ \t\"']*([\w.-]+)[\"']?\s*=\s*[\"']?([\w.]+):\w+")
_MAIN = re.compile(r"(?m)^if\s+__name__\s*==")
_ARGUMENT = re.compile(r"(?:add_argument|[.@](?:option|argument)|\bOption)\(([^)]*)")
_FLAG = re.compile(r"[\"'](--[A-Za-z][\w.-]*)[\"']")
_FIELD = re.compile(r"(?m)^[ \t]+(\w+)[ \t]*:[^=\n]+=")
_TRAINS = re.compile(r"(?:^|[_-])(?:pre)?train(?:er|ing)?(?:[_-]|$)|^learn$|^fit$", re.IGNORECASE)
_EVALUATES = re.compile(r"(?:^|[_-])(?:eval\w*|play|enjoy|rollout)(?:[_-]|$)", re.IGNORECASE)
_LEARNS = re.compile(r"\.(?:learn|fit|backward|apply_gradients)\(|\boptim\w*\.step\(")
_ROLES = {
    "seed": re.compile(r"(?:random[-_]|rng[-_]|global[-_])?seed"),
    # not n_steps or num_steps, which are the rollout length in many trainers
    "steps": re.compile(
        r"steps|timesteps|total[-_](?:env[-_])?(?:time[-_]?)?steps|num[-_](?:env[-_]steps|timesteps)"
    ),
    "run_dir": re.compile(
        r"out(?:put)?(?:[-_]?dir)?|(?:log|run|save|results?|work)[-_]?dir(?:ectory)?"
    ),
    "checkpoint": re.compile(
        r"(?:checkpoint|ckpt|policy|model|weights)(?:[-_](?:path|file))?|load[-_](?:path|checkpoint)"
    ),
}
_STAND_IN = re.compile(
    r"(?:^|=|/)(?:x{2,}|<.*>|\[.*\]|\.{3}|…|\*+|your\w*|path/to.*|\$\{?\w+\}?)(?:/|$)",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"(?:^|=)[A-Z][A-Z_]{2,}$")
_TRACKERS = ("wandb", "mlflow", "neptune", "comet_ml", "clearml")
_UPLOADS = re.compile(
    r"upload|push[-_]to|(?:^|[-_])push$|publish|^sync$|^scp$|^rsync$|deploy|^sudo$|overwrite|^--track$"
    rf"|^(?!--no|.*=(?:false|0|off|disabled)).*(?:{'|'.join(_TRACKERS)})",
    re.IGNORECASE,
)
_OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
_HARDWARE = re.compile(
    r"unitree_\w*|rospy|rclpy|dynamixel_sdk|pylibfranka|frankx?|panda_py|rtde_\w+|ur_rtde|lcm|odrive"
    r"|serial|can|pymodbus|robomaster|interbotix_\w*|xarm|kortex_api|bosdyn|djitellopy|pyrealsense2"
)
_TENSORBOARD = r"(?:.*\.)?tensorboard(?:X|\.SummaryWriter)?|rsl_rl.*|rl_games.*|skrl.*"
_CHECKPOINT = re.compile(
    r"[^/]*\.(?:pt|pth|ckpt|safetensors|onnx)|(?:policy|checkpoint|model|agent)[^/]*\.(?:json|npz|pkl|zip)"
)
_EVALUATOR = re.compile(r"^eval", re.IGNORECASE)
_SYSTEMS = {
    "hydra": ("hydra", "k=v"),
    "tyro": ("tyro", "--k v"),
    "argparse": ("argparse", "--k v"),
    "absl": ("custom", "--k=v"),
    "click": ("custom", "--k v"),
    "fire": ("custom", "--k=v"),
}


class OpenQuestion(Record):
    """Field that the draft leaves unknown, with the reason and the possible answers."""

    field: str
    why: str
    candidates: tuple[str, ...] = ()


class AdapterDraft(Record):
    """Draft of adapter.yaml with a list of fields that are still unknown."""

    adapter: Adapter
    questions: tuple[OpenQuestion, ...]


def draft_adapter(root: Path) -> AdapterDraft:
    """Return a draft of adapter.yaml for a repository."""
    return _Draft(root).result()


def write_draft(folder: StudyFolder) -> AdapterDraft:
    """Write a draft of adapter.yaml with comments."""
    draft = draft_adapter(folder.root)
    text = yaml_text(draft.adapter.as_data())
    for name, field in Adapter.model_fields.items():
        if field.description:
            text = re.sub(rf"(?m)^{name}:", f"# {field.description}\n{name}:", text)
    title = "# How this repository trains, evaluates and logs. Check it: telic study adapter\n"
    write_text(folder.adapter, title + text)
    return draft


def stand_ins(words: Sequence[str]) -> list[str]:
    """Return the placeholders in a command, such as <path>, --task=xxx, $HOME and ENV_ID."""
    return [word for word in words if _STAND_IN.search(word) or _CAPITALS.search(word)]


class _Script(NamedTuple):
    """Python script or installed command in the repository."""

    words: tuple[str, ...]
    path: str
    place: str
    is_documented: bool
    score: int


class _Draft(SourceTree):
    """Draft builder that records the source of each field."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.evidence: dict[str, list[str]] = {}
        self.questions: list[OpenQuestion] = []
        self.installed = {  # commands: name to module and place
            match[1]: (self.module(match[2]), place)
            for path in ("pyproject.toml", "setup.cfg", "setup.py")
            for match, place in self.find(path, _CONSOLE)
        }
        self.commands: dict[str, tuple[tuple[str, ...], str]] = {}
        for target, words, place in self._documented():
            self.commands.setdefault(target, (words, place))
        drivers: dict[str, str] = {}
        for path in self.scripts[:_MAX_SCRIPTS]:
            for name, place in self.imports(path).items():
                if _HARDWARE.fullmatch(name.partition(".")[0]) and self.module(name) is None:
                    drivers.setdefault(path, place)
        near = {
            path: next((x for x in self.reachable(path) if x in drivers), None)
            for path in (self.scripts[:_MAX_SCRIPTS] if drivers else ())
        }
        self.drives_hardware = {path: drivers[x] for path, x in near.items() if x is not None}

    def result(self) -> AdapterDraft:
        train = self._choose("commands.train", _TRAINS)
        evaluate = self._choose("commands.eval", _EVALUATES)
        reach = [] if train is None else self.reachable(train.path)
        flags = self._options(reach)[0] if reach else {}
        evaluators = [x for x in self.scripts if _EVALUATOR.search(PurePosixPath(x).stem)]
        self._cite("files.evaluator", *(f"{path}:1" for path in evaluators[:_MAX_SHOWN]))
        seeds: dict[str, Any] = {}
        if seed := _option_of(flags, "seed"):
            seeds = {"flag": seed[0], "controllable": True}
            self._cite("seeds", seed[1])
        data: dict[str, Any] = {
            "schema": "telic.adapter/1",
            "commands": {
                "train": self._command("commands.train", train, ("seed", "steps", "run_dir")),
                "eval": self._command("commands.eval", evaluate, ("checkpoint", "seed", "run_dir")),
                "smoke": None,
                "resume": None,
            },
            "config": self._config(reach),
            "logging": {"sources": list(self._logs(reach, flags))},
            "metrics": {},
            "files": {"evaluator": {"globs": evaluators[:50]}},
            "launcher": {},
            "seeds": seeds,
            "outputs": {"checkpoint_glob": self._checkpoints(reach)},
            "hazards": list(self._hazards(reach)),
        }
        data["provenance"] = {
            field: {
                "status": "inferred" if self.evidence.get(field) else "unknown",
                "evidence": self.evidence.get(field, [])[:_MAX_SHOWN],
            }
            for field in FIELDS
        }
        adapter = Adapter.parse(data, "draft")
        self._ask_about(adapter)
        return AdapterDraft(adapter=adapter, questions=tuple(self.questions))

    def _cite(self, field: str, *places: str) -> None:
        self.evidence.setdefault(field, []).extend(places)

    def _ask(self, field: str, why: str, candidates: Iterable[str] = ()) -> None:
        shown = tuple(dict.fromkeys(candidates))[:_MAX_SHOWN]
        self.questions.append(OpenQuestion(field=field, why=why, candidates=shown))

    # ------------------------------------------------------------------ scripts

    def _documented(self) -> Iterator[tuple[str, tuple[str, ...], str]]:
        """Yield (script, words, location) of usable commands in the README, docs and Makefiles."""
        pages = sorted(filter(_PAGE.fullmatch, self.paths), key=lambda x: (x.count("/"), x))
        for page in pages[:_MAX_PAGES]:
            held = ""
            for number, line in enumerate(self.text(page).split("\n"), start=1):
                text, held = held + line.strip(), ""
                if text.endswith("\\") and len(text) < MAX_LINE:
                    held = text[:-1]
                    continue
                for part in re.findall(r"`([^`]+)`", text) or [text]:
                    try:
                        words = shlex.split(_PROMPT.sub("", part.strip()), comments=True)
                    except ValueError:
                        continue
                    target = self._target(words)
                    # Placeholders, uploads and shell syntax cannot run unchanged.
                    odd = any(_UPLOADS.search(x) or x in _OPERATORS or "{" in x for x in words)
                    if target is not None and not odd and not stand_ins(words):
                        yield target, tuple(words), f"{page}:{number}"

    def _target(self, words: list[str]) -> str | None:
        """Return the Python file that a command starts, or None if it is outside the repository."""
        if words and words[0] in self.installed:
            return self.installed[words[0]][0]
        if len(words) < 2 or not _PYTHONS.fullmatch(words[0]):
            return None
        for flag, name in pairwise(words):
            if flag == "-m" and not name.startswith("-"):
                return self.module(name)
        script = next((os.path.normpath(word) for word in words if word.endswith(".py")), "")
        return script if script in self.paths else None

    def _choose(self, field: str, name: re.Pattern[str]) -> _Script | None:
        """Return the script for a role, or add an open question if several scripts qualify."""
        scripts = sorted(self._scripts(name), key=lambda script: -script.score)
        unsafe = [script.path for script in scripts if script.path in self.drives_hardware]
        scripts = [script for script in scripts if script.path not in unsafe]
        for path in unsafe[:1]:
            self._ask(field, f"{path} controls hardware ({self.drives_hardware[path]})")
        best = [script for script in scripts if script.score == scripts[0].score]
        if len({script.path for script in best}) > 1:
            lines = (" ".join(script.words) for script in best)
            self._ask(field, "several commands are equally likely", lines)
            return None
        if not best and not unsafe:
            self._ask(field, "no command was found")
        return best[0] if best else None

    def _scripts(self, name: re.Pattern[str]) -> Iterator[_Script]:
        """Yield the scripts that may have a role, scored by docs, installation and names."""
        other = _EVALUATES if name is _TRAINS else _TRAINS
        installed = {path: (word, place) for word, (path, place) in self.installed.items()}

        def has_role(path: str, role: re.Pattern[str]) -> bool:
            names = (PurePosixPath(path).stem, installed.get(path, ("", ""))[0])
            return any(map(role.search, names))

        paths = sorted(self.scripts, key=lambda x: (not has_role(x, name), x.count("/"), x))
        for path in paths[:_MAX_SCRIPTS]:
            main = next((place for _, place in self.find(path, _MAIN)), None)
            if main is None and path not in self.commands and path not in installed:
                continue
            reach = self.reachable(path) if path in self.commands else [path]
            learns = name is _TRAINS and any(_LEARNS.search(self.text(each)) for each in reach)
            if has_role(path, other) or not (has_role(path, name) or learns):
                continue
            score = 4 * (path in self.commands) + 2 * has_role(path, name) + learns
            words, place = ("python", path), main or f"{path}:1"
            if path in installed:
                words, place, score = (installed[path][0],), installed[path][1], score + 2
            words, place = self.commands.get(path, (words, place))
            score = 4 * score - min(path.count("/"), 3)
            yield _Script(words, path, place, path in self.commands, score)

    def _options(self, reach: Sequence[str]) -> tuple[dict[str, str], set[str]]:
        """Return the options of a script with their locations, and the required options.

        Positional arguments have no dashes, and keys of a Hydra configuration end with "=".
        """
        flags, required = dict[str, str](), set[str]()
        for path in (x for x in reach if x == reach[0] or not _MAIN.search(self.text(x))):
            for match, place in self.find(path, _ARGUMENT):
                names = re.findall(r"[\"']([^\"'\n]+)[\"']", match[1].split("=")[0])
                flag = next((n for n in names if n.startswith("--")), names[0] if names else None)
                if flag is None:
                    continue
                flags.setdefault(flag, place)
                is_optional = flag.startswith("-") or re.search(r"nargs=[\"'][?*]", match[1])
                if re.search(r"required\s*=\s*True", match[1]) or not is_optional:
                    required.add(flag)
            for match, place in self.find(path, _FLAG):  # lists that a helper passes to a parser
                flags.setdefault(match[1], place)
            if "tyro" in self.imports(path):
                for match, place in self.find(path, _FIELD):
                    flags.setdefault(f"--{match[1].replace('_', '-')}", place)
        if self.imported(reach, r"hydra(?:\..*)?"):
            for path in (x for x in self.paths if re.search(r"^(?:conf|cfg)\w*/[^/]+\.yaml$", x)):
                for match, place in self.find(path, r"(?m)^(\w+):"):
                    flags.setdefault(f"{match[1]}=", place)
        return flags, required

    def _command(
        self, field: str, script: _Script | None, roles: Sequence[str]
    ) -> dict[str, Any] | None:
        if script is None:
            return None
        flags, required = self._options(self.reachable(script.path))
        words, places = list(script.words), [script.place]
        given = {word.partition("=")[0] for word in words}
        for role in roles:
            if found := _option_of(flags, role):
                _place(words, found[0], role)
                given.add(found[0])
                places.append(found[1])
        missing = sorted(required - given)
        if script.is_documented:  # includes its positional arguments
            missing = [name for name in missing if name.startswith("-")]
        if missing:
            why = f"{script.path} requires {', '.join(missing)}, and no documented command sets it"
            self._ask(field, why, (" ".join(script.words),))
            return None
        self._cite(field, *places)
        return {"argv": [*words, *(["{overrides}"] if field == "commands.train" else [])]}

    # ------------------------------------------------------------------ other fields

    def _config(self, reach: Sequence[str]) -> dict[str, Any]:
        for package, (system, style) in _SYSTEMS.items():
            if place := self.imported(reach, rf"{package}(?:\..*)?"):
                self._cite("config", place)
                files = [x for x in self.paths if re.search(r"(?:conf|cfg).*\.ya?ml$", x)]
                folders = sorted({str(PurePosixPath(path).parent) for path in files})
                roots = folders[:_MAX_SHOWN] if system == "hydra" else []
                known = {"system": system, "override_style": style}
                return {**known, "detail": package, "roots": roots}
        return {"system": None, "override_style": None}

    def _logs(self, reach: Sequence[str], flags: Iterable[str]) -> Iterator[dict[str, Any]]:
        names = ("--track", "--wandb", "--use-wandb", "--use_wandb")
        switch = next((flag for flag in flags if flag in names), None)
        for package in _TRACKERS:
            if place := self.imported(reach, rf"{package}(?:\..*)?"):
                self._cite("logging", place)
                kind = "wandb" if package == "wandb" else "custom"
                optional = {"default": switch is None, "switch": switch}
                yield {"kind": kind, **optional, "network": True}
        if place := self.imported(reach, _TENSORBOARD):
            self._cite("logging", place)
            yield {"kind": "tensorboard"}
        for end, kind in ((".jsonl", "json"), (".csv", "csv")):
            pattern = rf"[\"']([^\"'\n]*{re.escape(end)})[\"']"
            found = (each for path in reach for each in self.find(path, pattern))
            if named := next(found, None):
                self._cite("logging", named[1])
                name = PurePosixPath(named[0][1]).name
                yield {"kind": kind, "path_template": None if name == end else name}

    def _checkpoints(self, reach: Sequence[str]) -> str | None:
        found: dict[str, str] = {}
        for path in reach:
            for match, place in self.find(path, r"[\"']([^\"'\s]+)[\"']"):
                name = PurePosixPath(match[1]).name
                if _CHECKPOINT.fullmatch(name):
                    found.setdefault(re.sub(r"\{[^}]*\}|%\w", "*", name), place)
        if len(found) != 1:
            return None
        name, place = next(iter(found.items()))
        self._cite("outputs", place)
        return f"**/*{name}" if name.startswith(".") else name

    def _hazards(self, reach: Sequence[str]) -> Iterator[dict[str, str]]:
        found = [
            ("actuates_hardware", f"{path} controls hardware", place)
            for path, place in list(self.drives_hardware.items())[:1]
        ]
        found += [
            ("network_by_default", f"uses {package}", place)
            for package in _TRACKERS
            if (place := self.imported(reach, rf"{package}(?:\..*)?"))
        ]
        return ({"id": x, "detail": detail, "evidence": place} for x, detail, place in found)

    def _ask_about(self, adapter: Adapter) -> None:
        train, evaluate = adapter.commands.train, adapter.commands.eval
        if evaluate is not None and not any("{checkpoint}" in word for word in evaluate.argv):
            self._ask("commands.eval", "no option for {checkpoint} was found")
        if train is None:
            return
        for name in ("{steps}", "{run_dir}"):
            if not any(name in word for word in train.argv):
                self._ask("commands.train", f"no single option for {name} was found")
        if adapter.seeds.flag is None:
            self._ask("seeds", "no option for the seed was found")
        if not adapter.logging.sources:
            self._ask("logging", "no log was found; which file contains the metrics?")
        self._ask("metrics", "which names in the log are the return and the success rate?")


def _option_of(flags: dict[str, str], role: str) -> tuple[str, str] | None:
    """Return the option for a role with its location, or None unless exactly one fits."""
    fits = [
        (flag, place)
        for flag, place in flags.items()
        if flag.strip("-=") != flag and _ROLES[role].fullmatch(flag.strip("-="))
    ]
    return fits[0] if len(fits) == 1 else None


def _place(words: list[str], flag: str, role: str) -> None:
    """Replace the value of an option or argument with a placeholder, or append the placeholder."""
    value = f"{{{role}}}"
    for index, word in enumerate(words):
        name, joint, _ = word.partition("=")
        if name == flag.rstrip("=") and joint:
            words[index] = f"{name}={value}"
            return
        if word == flag and index + 1 < len(words):
            words[index + 1] = value
            return
    words.extend([f"{flag}{value}"] if flag.endswith("=") else [flag, value])
