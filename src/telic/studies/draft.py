"""Draft adapter.yaml from cheap facts of a repository; whatever is not clear stays unknown.

Every value that is filled in cites the line it comes from. A draft is a start for a person or a
coding agent: `telic study adapter` checks it, and a smoke run proves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from telic.core.config import Record
from telic.storage.files import write_text
from telic.studies.documents.adapter import (
    FIELDS,
    Adapter,
    Commands,
    CommandSpec,
    ConfigSpec,
    ConfigSystem,
    Files,
    FileSet,
    Hazard,
    LauncherSpec,
    Logging,
    LogSource,
    MetricMap,
    OverrideStyle,
    Provenance,
    RepositoryOutputs,
    Seeds,
)
from telic.studies.documents.base import put_at, rewrite_yaml, value_at, yaml_text
from telic.studies.folder import StudyFolder
from telic.studies.source_facts import MAIN, DocumentedCommand, ScriptOptions, SourceTree

_MOST_SCRIPTS = 400
_MOST_SHOWN = 5

# ---------------------------------------------------------------------------- words

_TRAINS = re.compile(r"(?:^|[_-])(?:pre)?train(?:er|ing)?(?:[_-]|$)|^learn$|^fit$", re.IGNORECASE)
_EVALUATES = re.compile(r"(?:^|[_-])(?:eval\w*|play|enjoy|rollout)(?:[_-]|$)", re.IGNORECASE)
_LEARNS = re.compile(r"\.(?:learn|fit|backward|apply_gradients)\(|\boptim\w*\.step\(")
_NOT_SCRIPTS = re.compile(r"(?:^|/)(?:tests?|docs?|conftest\.py|setup\.py|test_[^/]*)(?:/|$)")
_ROLES = {
    "seed": re.compile(r"(?:random[-_]|rng[-_]|global[-_])?seed"),
    # not n_steps or num_steps: in many trainers that is the length of a rollout
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
_PLACEHOLDER = re.compile(
    r"(?:^|=|/)(?:x{2,}|<.*>|\[.*\]|\.{3}|…|\*+|your\w*|path/to.*|\$\{?\w+\}?)(?:/|$)",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"(?:^|=)[A-Z][A-Z_]{2,}$")
_UPLOADS = re.compile(
    r"upload|push[-_]to|(?:^|[-_])push$|publish|^sync$|^scp$|^rsync$|deploy|^sudo$|overwrite|wandb[-_]run",
    re.I,
)
_OPERATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"})
_HARDWARE = re.compile(
    r"unitree_\w*|rospy|rclpy|dynamixel_sdk|pylibfranka|frankx?|panda_py|rtde_\w+|ur_rtde|lcm|odrive"
    r"|serial|can|pymodbus|robomaster|interbotix_\w*|xarm|kortex_api|bosdyn|djitellopy|pyrealsense2"
)
_TRACKERS = {
    "wandb": {"WANDB_MODE": "disabled"},
    "mlflow": {},
    "neptune": {"NEPTUNE_MODE": "offline"},
    "comet_ml": {"COMET_MODE": "disabled"},
    "clearml": {"CLEARML_OFFLINE_MODE": "1"},
}
_TENSORBOARD = re.compile(r"(?:.*\.)?tensorboard(?:X|\.SummaryWriter)?|rsl_rl.*|rl_games.*|skrl.*")
_STARTS = r"\b(?:system|run|call|check_call|Popen)\([^)\n]*"
_HAZARDS = (
    (
        "network_by_default",
        r"urlretrieve\(|urlopen\(|hf_hub_download\(|snapshot_download\(|load_dataset\("
        r"|wget\.download\(|requests\.(?:get|post)\(",
    ),
    ("installs_packages_at_runtime", _STARTS + r"pip(?:\s|['\"],\s*['\"])install"),
    (
        "deletes_results",
        r"rmtree\([^)\n]*(?:log|run|out|result|save|ckpt|checkpoint|exp)"
        rf"|{_STARTS}\brm -\w*r",
    ),
)
_CHECKPOINT = re.compile(
    r"[^/]*\.(?:pt|pth|ckpt|safetensors|onnx)|(?:policy|checkpoint|model|agent)[^/]*\.(?:json|npz|pkl|zip)"
)
_PARTS = {
    "reward": re.compile(r"reward"),
    "termination": re.compile(r"terminat"),
    "curriculum": re.compile(r"curricul"),
    "randomization": re.compile(r"domain_rand|randomiz|randomis"),
    "policy": re.compile(r"^(?:policy|policies|actor_critic|networks?)"),
    "evaluator": re.compile(r"^eval"),
}
_SYSTEMS: dict[str, tuple[ConfigSystem, OverrideStyle | None]] = {
    "hydra": ("hydra", "k=v"),
    "tyro": ("tyro", "--k v"),
    "gin": ("gin", None),
    "argparse": ("argparse", "--k v"),
    "absl": ("custom", "--k=v"),
    "click": ("custom", "--k v"),
    "typer": ("custom", "--k v"),
    "fire": ("custom", "--k=v"),
    "sacred": ("custom", "k=v"),
}


# ---------------------------------------------------------------------------- result


class OpenQuestion(Record):
    """A field that the draft leaves unknown, why, and possible answers."""

    field: str
    why: str
    candidates: tuple[str, ...] = ()


class AdapterDraft(Record):
    """A draft of adapter.yaml and what is left to fill in."""

    adapter: Adapter
    questions: tuple[OpenQuestion, ...]
    files: int
    """files in the repository, up to the limit"""


def draft_adapter(root: Path) -> AdapterDraft:
    """Return a draft for a repository: reads a bounded part of it, whatever it holds."""
    return _Draft(SourceTree(root)).result()


def write_draft(folder: StudyFolder) -> AdapterDraft:
    """Write adapter.yaml from a new draft; confirmed fields and comments of a present file stay."""
    draft = draft_adapter(folder.root)
    if folder.adapter.exists():
        kept = _keep_confirmed(draft.adapter, folder.read_adapter())
        rewrite_yaml(folder.adapter, kept)
        return draft.model_copy(update={"adapter": kept})
    write_text(folder.adapter, _commented(draft.adapter))
    return draft


def _commented(adapter: Adapter) -> str:
    """Return the draft as YAML with the description of each section above it."""
    text = yaml_text(adapter.as_data())
    for name, field in Adapter.model_fields.items():
        if field.description:
            text = re.sub(rf"^{name}:", f"# {field.description}\n{name}:", text, flags=re.MULTILINE)
    return (
        f"# How this repository trains, evaluates and logs. Check it: telic study adapter\n{text}"
    )


def _keep_confirmed(drafted: Adapter, present: Adapter) -> Adapter:
    data, old = drafted.as_data(), present.as_data()
    for field, provenance in present.provenance.items():
        if provenance.status == "confirmed":
            put_at(data, field, value_at(old, field))
            data["provenance"][field] = old["provenance"][field]
    return Adapter.parse(data, "adapter")


# ---------------------------------------------------------------------------- scripts


class _Script(NamedTuple):
    """A way to start Python code of the repository."""

    words: tuple[str, ...]
    path: str
    place: str
    score: int

    @property
    def line(self) -> str:
        return " ".join(self.words)


def _option_of(options: ScriptOptions, role: str) -> tuple[str, str] | None:
    """Return the one option of a role with its place; None if there are none or several."""
    fits = {
        flag: place
        for flag, place in options.flags.items()
        if _ROLES[role].fullmatch(flag.lstrip("-").rstrip("="))
    }
    return next(iter(fits.items())) if len(fits) == 1 else None


class _Draft:
    """One draft: fields are added with the places they come from."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self.evidence: dict[str, list[str]] = {}
        self.questions: list[OpenQuestion] = []
        self.excluded = dict(_hardware(tree))

    def result(self) -> AdapterDraft:
        train = self._choose("commands.train", _TRAINS)
        evaluate = self._choose("commands.eval", _EVALUATES)
        reach = [] if train is None else self.tree.reachable(train.path)
        options = self.tree.options(reach) if reach else ScriptOptions({}, frozenset())
        adapter = Adapter(
            commands=Commands(
                train=self._command("commands.train", train, ("seed", "steps", "run_dir")),
                eval=self._command("commands.eval", evaluate, ("checkpoint", "seed", "run_dir")),
                smoke=None,
                resume=None,
            ),
            config=self._config(reach),
            logging=Logging(sources=tuple(self._logs(reach, options))),
            metrics=MetricMap(),
            files=self._files(),
            launcher=LauncherSpec(),
            seeds=self._seeds(options),
            outputs=RepositoryOutputs(checkpoint_glob=self._checkpoints(reach)),
            hazards=tuple(self._hazards(reach)),
        )
        provenance = {
            field: Provenance(
                status="inferred" if self.evidence.get(field) else "unknown",
                evidence=tuple(self.evidence.get(field, ())[:_MOST_SHOWN]),
            )
            for field in FIELDS
        }
        adapter = adapter.model_copy(update={"provenance": provenance})
        self._ask_about(adapter)
        return AdapterDraft(
            adapter=adapter, questions=tuple(self.questions), files=len(self.tree.paths)
        )

    def _cite(self, field: str, *places: str) -> None:
        self.evidence.setdefault(field, []).extend(places)

    def _ask(self, field: str, why: str, candidates: Iterable[str] = ()) -> None:
        shown = tuple(dict.fromkeys(candidates))[:_MOST_SHOWN]
        self.questions.append(OpenQuestion(field=field, why=why, candidates=shown))

    # ------------------------------------------------------------------ commands

    def _choose(self, field: str, name: re.Pattern[str]) -> _Script | None:
        """Return the script that clearly plays a role; ask where there is none or several."""
        scripts = sorted(_scripts(self.tree, name), key=lambda script: -script.score)
        unsafe = [script for script in scripts if script.path in self.excluded]
        scripts = [script for script in scripts if script.path not in self.excluded]
        for script in unsafe[:1]:
            self._ask(field, f"{script.path} drives hardware ({self.excluded[script.path]})")
        best = [script for script in scripts if script.score == scripts[0].score]
        if len({script.path for script in best}) > 1:
            self._ask(field, "several commands are equally likely", (s.line for s in best))
            return None
        if not best and not unsafe:
            self._ask(field, "no command was found", _notebooks(self.tree))
        return best[0] if best else None

    def _command(
        self, field: str, script: _Script | None, roles: Sequence[str]
    ) -> CommandSpec | None:
        if script is None:
            return None
        options = self.tree.options(self.tree.reachable(script.path))
        words, places = list(script.words), [script.place]
        given = {word.partition("=")[0] for word in words}
        for role in roles:
            found = _option_of(options, role)
            if found is not None:
                _place(words, found[0], role)
                given.add(found[0])
                places.append(found[1])
        missing = sorted(options.required - given)
        positional = [name for name in missing if not name.startswith("-")]
        if positional and _free_words(script.words):  # a documented command gives them
            missing = [name for name in missing if name.startswith("-")]
        if missing:
            why = f"{script.path} requires {', '.join(missing)}, and no documented command sets it"
            self._ask(field, why, (script.line,))
            return None
        self._cite(field, *places)
        return CommandSpec(argv=(*words, *(("{overrides}",) if field == "commands.train" else ())))

    # ------------------------------------------------------------------ settings and results

    def _config(self, reach: Sequence[str]) -> ConfigSpec:
        for package, (system, style) in _SYSTEMS.items():
            place = _imported(self.tree, reach, re.compile(rf"{package}(?:\..*)?"))
            if place is not None:
                self._cite("config", place)
                roots = self._config_files() if system in ("hydra", "gin") else ()
                return ConfigSpec(system=system, detail=package, override_style=style, roots=roots)
        return ConfigSpec(system=None, override_style=None)

    def _config_files(self) -> tuple[str, ...]:
        files = [path for path in self.tree.paths if path.endswith((".yaml", ".yml", ".gin"))]
        folders = {
            str(PurePosixPath(path).parent) for path in files if "conf" in path or "cfg" in path
        }
        return tuple(sorted(folders, key=lambda name: (name.count("/"), name))[:_MOST_SHOWN])

    def _seeds(self, options: ScriptOptions) -> Seeds:
        found = _option_of(options, "seed")
        if found is None:
            return Seeds()
        self._cite("seeds", found[1])
        return Seeds(flag=found[0], controllable=True)

    def _logs(self, reach: Sequence[str], options: ScriptOptions) -> Iterator[LogSource]:
        switch = next(
            (f for f in options.flags if re.fullmatch(r"--(?:use[-_])?(?:track|wandb)", f)), None
        )
        for package, offline in _TRACKERS.items():
            place = _imported(self.tree, reach, re.compile(rf"{package}(?:\..*)?"))
            if place is not None:
                self._cite("logging", place)
                yield LogSource(
                    kind="wandb" if package == "wandb" else "custom",
                    default=switch is None,
                    switch=switch,
                    offline_env=offline,
                    network=True,
                )
        if place := _imported(self.tree, reach, _TENSORBOARD):
            self._cite("logging", place)
            yield LogSource(kind="tensorboard")
        for end, kind in ((".jsonl", "json"), (".csv", "csv")):
            pattern = rf"[\"']([^\"'\n]*{re.escape(end)})[\"']"
            found = (each for path in reach for each in self.tree.find(path, pattern))
            if named := next(found, None):
                self._cite("logging", named[1])
                name = PurePosixPath(named[0][1]).name
                template = None if name == end else name
                yield LogSource(kind=cast("Any", kind), path_template=template)

    def _checkpoints(self, reach: Sequence[str]) -> str | None:
        found: dict[str, str] = {}
        for path in reach:
            for match, place in self.tree.find(path, r"[\"']([^\"'\s]+)[\"']"):
                name = PurePosixPath(match[1]).name
                if _CHECKPOINT.fullmatch(name):
                    found.setdefault(re.sub(r"\{[^}]*\}|%\w", "*", name), place)
        if len(found) != 1:
            return None
        name, place = next(iter(found.items()))
        self._cite("outputs", place)
        return f"**/*{name}" if name.startswith(".") else name

    def _files(self) -> Files:
        sets: dict[str, FileSet] = {}
        for part, pattern in _PARTS.items():
            paths = [
                path
                for path in self.tree.paths
                if path.endswith(".py")
                and pattern.search(PurePosixPath(path).stem.lower())
                and not _NOT_SCRIPTS.search(path)
            ]
            self._cite(f"files.{part}", *(f"{path}:1" for path in paths[:_MOST_SHOWN]))
            sets[part] = FileSet(globs=tuple(paths[:50]))
        return Files(**sets)

    # ------------------------------------------------------------------ risks and questions

    def _hazards(self, reach: Sequence[str]) -> Iterator[Hazard]:
        for path, place in list(self.excluded.items())[:1]:
            yield Hazard(id="actuates_hardware", detail=f"{path} drives hardware", evidence=place)
        for package in _TRACKERS:
            if place := _imported(self.tree, reach, re.compile(rf"{package}(?:\..*)?")):
                yield Hazard(id="network_by_default", detail=f"uses {package}", evidence=place)
        for name, pattern in _HAZARDS:
            for path in reach:
                for match, place in self.tree.find(path, pattern):
                    yield Hazard(id=name, detail=match[0][:60], evidence=place)

    def _ask_about(self, adapter: Adapter) -> None:
        train, evaluate = adapter.commands.train, adapter.commands.eval
        if evaluate is not None and not any("{checkpoint}" in word for word in evaluate.argv):
            self._ask("commands.eval", "no option for {checkpoint} was found")
        if train is None:
            return
        for name, field in (("{steps}", "commands.train"), ("{run_dir}", "commands.train")):
            if not any(name in word for word in train.argv):
                self._ask(field, f"no single option for {name} was found")
        if adapter.seeds.flag is None:
            self._ask("seeds", "no option for the seed was found")
        if not adapter.logging.sources:
            self._ask("logging", "no log was found; which file has the numbers?")
        self._ask("metrics", "which name in the log is the return, which is success?")


def _scripts(tree: SourceTree, name: re.Pattern[str]) -> Iterator[_Script]:
    """Yield what may play a role, with a score: documented, installed, named so, learns."""
    other = _EVALUATES if name is _TRAINS else _TRAINS
    documented: dict[str, DocumentedCommand] = {}
    for command in tree.documented:
        if command.target is not None and _is_usable(command.words):
            documented.setdefault(command.target, command)
    installed = {
        tree.module(module): (word, place) for word, (module, place) in tree.console_scripts.items()
    }
    for path in _python_files(tree, name):
        text, command = tree.text(path), documented.get(path)
        word, installed_at = installed.get(path, ("", ""))
        if not MAIN.search(text) and command is None and not word:
            continue
        is_named = _role_name(path, name) or bool(name.search(word))
        is_other = _role_name(path, other) or bool(other.search(word))
        reach = tree.reachable(path) if command is not None else [path]
        learns = name is _TRAINS and any(_LEARNS.search(tree.text(each)) for each in reach)
        if is_other or not (is_named or learns):
            continue
        score = 4 * (command is not None) + 2 * is_named + 2 * bool(word) + learns
        main = next((place for _, place in tree.find(path, MAIN)), f"{path}:1")
        words, place = ("python", path), main
        if word:
            words, place = (word,), installed_at
        if command is not None:
            words, place = command.words, command.place
        yield _Script(words, path, place, 4 * score - min(path.count("/"), 3))


def _python_files(tree: SourceTree, name: re.Pattern[str] | None = None) -> list[str]:
    """Return the files that may be scripts, those with a name of the role first, up to a limit."""
    paths = [path for path in tree.paths if path.endswith(".py") and not _NOT_SCRIPTS.search(path)]
    if name is not None:
        paths.sort(key=lambda path: (not _role_name(path, name), path.count("/"), path))
    return paths[:_MOST_SCRIPTS]


def _role_name(path: str, name: re.Pattern[str]) -> bool:
    return bool(name.search(PurePosixPath(path).stem))


def stand_ins(words: Sequence[str]) -> list[str]:
    """Return the words of a command that stand for a value: <path>, --task=xxx, $HOME, ENV_ID."""
    return [word for word in words if _PLACEHOLDER.search(word) or _CAPITALS.search(word)]


def _is_usable(words: Sequence[str]) -> bool:
    """Return whether a documented command can run as it is: no stand-ins, uploads or shell."""
    is_refused = any(_UPLOADS.search(word) or word in _OPERATORS or "{" in word for word in words)
    return not is_refused and not stand_ins(words)


def _place(words: list[str], flag: str, role: str) -> None:
    """Put a placeholder where an option or argument is given, or add it."""
    if not flag.startswith("-") and not flag.endswith("="):
        free = _free_words(words)
        if free:
            words[free[0]] = f"{{{role}}}"
        else:
            words.append(f"{{{role}}}")
        return
    for index, word in enumerate(words):
        name, joint, _ = word.partition("=")
        if name == flag.rstrip("=") and joint:
            words[index] = f"{name}={{{role}}}"
            return
        if word == flag and index + 1 < len(words):
            words[index + 1] = f"{{{role}}}"
            return
    words.extend([f"{flag}{{{role}}}"] if flag.endswith("=") else [flag, f"{{{role}}}"])


def _free_words(words: Sequence[str]) -> list[int]:
    """Return where a command has positional arguments after the script."""
    start = next((i for i, word in enumerate(words) if word.endswith(".py")), 0)
    start = start or next((i + 1 for i, word in enumerate(words) if word == "-m"), 0)
    rest = range(start + 1, len(words))
    return [i for i in rest if not words[i].startswith("-") and not words[i - 1].startswith("--")]


def _imported(tree: SourceTree, reach: Sequence[str], pattern: re.Pattern[str]) -> str | None:
    return next(
        (
            place
            for path in reach
            for name, place in tree.imports(path).items()
            if pattern.fullmatch(name)
        ),
        None,
    )


def _hardware(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Yield files from which a driver of hardware is reached, with the place of its import."""
    paths = _python_files(tree)
    drivers: dict[str, str] = {}
    for path in paths:
        for name, place in tree.imports(path).items():
            if _HARDWARE.fullmatch(name.partition(".")[0]) and tree.module(name) is None:
                drivers.setdefault(path, place)
    for path in paths if drivers else ():
        driver = next((near for near in tree.reachable(path) if near in drivers), None)
        if driver is not None:
            yield path, drivers[driver]


def _notebooks(tree: SourceTree) -> list[str]:
    return [path for path in tree.paths if path.endswith(".ipynb")]
