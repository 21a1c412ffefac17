"""Hazards of running at all: displays, simulators, devices, budgets, folders, packages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from telic.studies.scan.declared import read_toml
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.hazards import Alarm, Findings, RuleBook, imported, imports, where
from telic.studies.scan.records import SourceLine, quote
from telic.studies.scan.runs import expanded, written_paths
from telic.studies.scan.settings import Setting, bare
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY, RepositoryTree

RUNNING = RuleBook()
_VIDEO = re.compile(r"^(capture_video|record_video|save_video|video|render|record|log_video\w*)$")
_SAVE = VOCABULARY.pattern("save_settings")
_STEPS = VOCABULARY.pattern("step_settings")
_ITERATIONS = re.compile(r"^(max_iterations|num_learning_iterations|num_iterations|max_epochs)$")
_SAVING = VOCABULARY.pattern("saving_calls")
_SAVE_THEMSELVES = VOCABULARY.words("learners_that_save")
_LONG_STEPS, _LONG_ITERATIONS = 2e7, 5000
_PRECISION = VOCABULARY.pattern("precision_words")
_LATEST = VOCABULARY.pattern("latest_run_calls")
_UNIQUE = re.compile(r"time|date|uuid|seed|stamp|now|run_id|exp_id|\{.*id\}", re.I)
_FIXED_BUDGETS = VOCABULARY.words("fixed_budgets")
_ACTIVATES = VOCABULARY.pattern("activation_commands")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(.*)$")
_QUOTED_REQUIREMENT = re.compile(r"""["']([A-Za-z][\w.-]*(?:\[[\w,]+\])?\s*(?:[<>=~!@].*?)?)["']""")
_INSTALL_REQUIRES = re.compile(r"install_requires\s*=\s*\[(.*?)\]\s*[,)\n]", re.S | re.I)


def _settings(found: Findings, pattern: str | re.Pattern[str]) -> Iterator[Setting]:
    """Settings of the training command with such a name, as they are after composition."""
    main = found.scan.main
    if main is None:
        return
    for flag in main.interface.flags:
        if re.match(pattern, flag.name) and flag.default is not None:
            yield Setting(flag.key, flag.default, flag.known, flag.label, flag.path, flag.line)
    for key, value in main.composition.values.items():
        if re.match(pattern, bare(key)) and value.value is not None:
            yield Setting(
                key, value.value, True, key, value.path or main.starts[0].path, value.line
            )
    paths = main.defaults.paths
    fields = [each for each in found.scan.settings.fields if each.path in paths]
    matching = [each for each in fields if "." in each.name and re.match(pattern, bare(each.name))]
    yield from sorted(matching, key=lambda each: paths[each.path])


def _default(setting: Setting, detail: str) -> Alarm:
    return Alarm(detail, [_quote(setting)])


def _quote(setting: Setting) -> SourceLine:
    return quote(setting, f"{setting.name} = {setting.default}")


def _first_match(scan: RepositoryScan, path: str, pattern: re.Pattern[str]) -> list[SourceLine]:
    """Return the first place of a file's text that matches."""
    match = pattern.search(scan.tree.text(path))
    if match is None:
        return []
    return [SourceLine(path=path, line=scan.tree.line_of(path, match.start()), note=match[0])]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@RUNNING.rule
def display_by_default(found: Findings) -> Alarm | None:
    """A window opens unless told otherwise."""
    for setting in _settings(found, r"^headless$"):
        if setting.known and setting.default is False:
            return _default(setting, "opens a window unless headless is set")
    for call in found.scan.happening() if found.scan.main else ():
        if call.keywords.get("render_mode") == "human":
            return Alarm("renders for people", [quote(call, "render_mode=human")])
    return None


@RUNNING.rule
def renders_by_default(found: Findings) -> Alarm | None:
    """Videos are made unless told otherwise."""
    for setting in _settings(found, _VIDEO):
        if setting.known and setting.default is True:
            return _default(setting, f"{setting.label} is on by default")
    return None


@RUNNING.rule
def proprietary_simulator(found: Findings) -> Alarm | None:
    """A simulator that cannot simply be installed."""
    lines = imports(found, "simulators_proprietary")
    return where(lines, f"needs {imported(lines)}")


@RUNNING.rule
def gpu_required(found: Findings) -> Alarm | None:
    """No run without a graphics card."""
    lines = imports(found, "simulators_gpu")
    for setting in _settings(found, r"^(device|rl_device|sim_device)$"):
        on_gpu = isinstance(setting.default, str) and setting.default.startswith(("cuda", "gpu"))
        if on_gpu and "is_available" not in found.scan.tree.text(setting.path):
            lines.append(_quote(setting))
    for call in found.scan.happening() if found.scan.main else ():
        is_moved = call.last == "cuda" and "." in call.name and not call.guards
        if is_moved or (call.name == "torch.device" and call.args[:1] == ("cuda",)):
            lines.append(quote(call, f"{call.name}(…)"))
    return where(lines, "expects a GPU by default")


@RUNNING.rule
def checkpoint_off_by_default(found: Findings) -> Alarm | None:
    """Nothing is saved unless asked for."""
    for setting in _settings(found, _SAVE):
        if setting.known and (setting.default is False or setting.default in (-1, 0)):
            return _default(setting, f"{setting.label} is off")
    main = found.scan.main
    if main is None or main.training is None:
        return None
    if any(_SAVING.match(call.last) for call in main.happening):
        return None
    outside = [name for call in main.happening for name in found.scan.flow.outside(call)]
    if any(name.partition(".")[0] in _SAVE_THEMSELVES for name in outside):
        return None
    return Alarm("nothing that is learned is saved", [quote(main.training, main.training.name)])


@RUNNING.rule
def config_not_cli_overridable(found: Findings) -> Alarm | None:
    """Settings that only an edit of the source changes."""
    main = found.scan.main
    if main is None or not _is_fixed(main):
        return None
    entry = found.scan.train[0]
    return Alarm(f"{entry.path} takes no settings", entry.evidence[:1])


def _is_fixed(main: Situation) -> bool:
    """Whether nothing on the command line or in a file changes a command's settings."""
    if main.accepted.flags or main.accepted.parsers or main.composition.files:
        return False
    paths = list(main.files)
    text = main.flow.repository.tree.text
    return not any("sys.argv" in text(path) or "os.environ" in text(path) for path in paths)


@RUNNING.rule
def budget_hardcoded(found: Findings) -> Alarm | None:
    """A training length written into the call."""
    for call in found.scan.happening() if found.scan.main else ():
        if call.last in {"learn", "train", "fit"} and found.scan.flow.trains(call):
            fixed = [value for name, value in call.keywords.items() if name in _FIXED_BUDGETS]
            fixed = fixed or [value for value in call.args[:1] if isinstance(value, int | float)]
            if any(map(_is_number, fixed)):
                return Alarm(f"{call.name}({fixed[0]})", [quote(call, call.name)])
    main = found.scan.main
    if main is not None and main.training is not None and _is_fixed(main):
        place = quote(main.training, main.training.name)
        return Alarm("how long it trains is written into the code", [place])
    return None


@RUNNING.rule
def long_default_budget(found: Findings) -> Alarm | None:
    """A default that runs for hours or days."""
    for pattern, most in ((_STEPS, _LONG_STEPS), (_ITERATIONS, _LONG_ITERATIONS)):
        for setting in _settings(found, pattern):
            if _is_number(setting.default) and setting.default >= most:
                return _default(setting, f"{setting.name} = {setting.default:g}")
    return None


@RUNNING.rule
def nested_search(found: Findings) -> Alarm | None:
    """A search over settings inside the training command."""
    lines = imports(found, "search", found.scan.train_files)
    return where(lines, "may start a search of its own")


@RUNNING.rule
def multiple_trainers(found: Findings) -> Alarm | None:
    """More than one command trains."""
    places: dict[tuple[str, int], str] = {}
    for entry in found.scan.train:
        call = found.scan.of(entry).training
        if call:
            places.setdefault((call.path, call.line), entry.path)
    if len(places) < 2:
        return None
    lines = [SourceLine(path=path, line=1, note="trains") for path in places.values()]
    return Alarm(f"{len(places)} commands train; choose one", lines)


@RUNNING.rule
def no_entrypoint(found: Findings) -> Alarm | None:
    """A library: nothing here trains by itself."""
    return None if found.scan.train else Alarm("no training command in this repository")


@RUNNING.rule
def precision_changes_result(found: Findings) -> Alarm | None:
    """Reduced or changed precision."""
    scan = found.scan
    lines = [line for path in scan.train_files for line in _first_match(scan, path, _PRECISION)]
    return where(lines, "precision depends on settings or hardware")


@RUNNING.rule
def latest_run_default(found: Findings) -> Alarm | None:
    """The newest run is taken when none is named."""
    scan = found.scan
    for path in scan.files({**scan.any_train_reach, **scan.eval_reach}):
        for call in scan.repository.modules[path].calls:
            if _LATEST.search(call.last):
                place = quote(call, f"{call.name}(…)")
                return Alarm("takes the newest run when none is named", [place])
    for setting in scan.declared():
        is_latest = setting.known and setting.default in (-1, "-1", ".*")
        if is_latest and setting.name.endswith("load_run"):
            return _default(setting, "load_run defaults to the newest run")
    return None


@RUNNING.rule
def output_dir_collision(found: Findings) -> Alarm | None:
    """Two runs with equal settings write into one folder."""
    scan = found.scan
    if scan.main is None or "hydra" in scan.main.accepted.parsers:  # Hydra makes a folder each
        return None
    templates = [found.audit.outputs.run_dir_template or ""]
    lines = list(found.audit.outputs.evidence)
    for call, text in written_paths(scan.main):
        templates.append(expanded(scan, text, call.path, call.scope))
        lines.append(quote(call, templates[-1]))
    known = [each for each in templates if "/" in each and not each.startswith("{")]
    if not known or any(map(_UNIQUE.search, templates)) or _counts_runs(scan):
        return None
    return Alarm(f"every run writes to {known[0]}", lines)


def _counts_runs(scan: RepositoryScan) -> bool:
    """Whether the code looks for folders of earlier runs, as it does to number the next."""
    calls = scan.main.happening if scan.main else []
    return any(call.last in {"listdir", "glob", "iterdir", "scandir", "mkdtemp"} for call in calls)


@RUNNING.rule
def env_version_floats(found: Findings) -> Alarm | None:
    """Environment packages without a version bound."""
    names = VOCABULARY.table("environments")["packages"]
    environments = {name.replace("_", "-").lower() for name in names}
    lines = [
        SourceLine(path=path, line=line, note=f"{name} {bound}".strip())
        for name, path, line, bound in _requirements(found.scan.tree)
        if name in environments
        and (not bound or (bound.startswith(("@", ">")) and "<" not in bound))
    ]
    return where(lines, "environment packages are not pinned")


def _requirements(tree: RepositoryTree) -> Iterator[tuple[str, str, int, str]]:
    """Yield the dependencies that packaging and requirement files declare, with version bounds."""
    for path in tree.paths:
        folder, _, name = path.rpartition("/")
        lines: list[Any] = []
        if name == "pyproject.toml" and not folder:
            lines = read_toml(tree.text(path)).get("project", {}).get("dependencies", [])
        elif name == "setup.py" and not folder:
            match = _INSTALL_REQUIRES.search(tree.text(path))
            lines = _QUOTED_REQUIREMENT.findall(match[1]) if match else []
        elif name.startswith("requirements") and name.endswith(".txt") and "/" not in folder:
            lines = tree.text(path).splitlines()
        for line in (each for each in lines if isinstance(each, str)):
            match = _REQUIREMENT.match(line.split("#")[0].split(";")[0].strip())
            if match:
                name = match[1].lower().replace("_", "-")
                yield name, path, tree.line_with(path, match[1]), match[3].strip()


@RUNNING.rule
def unmaintained_part(found: Findings) -> Alarm | None:
    """Packages nobody looks after any more."""
    lines = imports(found, "unmaintained")
    return where(lines, f"rests on {imported(lines)}")


@RUNNING.rule
def behaviour_depends_on_installed_packages(found: Findings) -> Alarm | None:
    """Imports that are forgiven when missing."""
    modules = found.scan.repository.modules
    lines = [
        SourceLine(path=path, line=modules[path].import_lines[origin], note=f"{origin} is optional")
        for path in found.scan.train_files
        for origin in sorted(modules[path].optional_imports)
        if found.scan.repository.module(origin.partition(".")[0]) is None
    ]
    names = ", ".join(dict.fromkeys(line.note.split()[0] for line in lines[:6]))
    return where(lines, f"changes with {names}")


@RUNNING.rule
def env_activation_required(found: Findings) -> Alarm | None:
    """Something has to be entered before the command works."""
    for entry in found.scan.train[:1]:
        if entry.argv[0].endswith(".sh"):
            return Alarm(f"is started through {entry.argv[0]}", entry.evidence[:1])
    for path in found.scan.tree.paths:
        name = path.rpartition("/")[2].lower()
        is_doc = path.startswith("docs/") and name.endswith((".md", ".rst"))
        if name.startswith("readme") or is_doc:
            lines = _first_match(found.scan, path, _ACTIVATES)
            if lines:
                return Alarm(lines[0].note, lines)
    return None
