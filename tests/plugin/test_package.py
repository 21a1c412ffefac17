"""What is committed is what the source makes, and it is sound; what is not sound is found."""

import json
import re
from pathlib import Path

import pytest

from telic.plugin import checks, package
from telic.plugin.package import (
    HOME,
    differences,
    package_files,
    read_source,
    split_front_matter,
    write_package,
)

ROOT = Path(__file__).parents[2]

SKILLS = [
    *("adapter", "audit", "contract", "propose", "review", "reward", "robustness", "run"),
]
AGENTS = ["experiment-director", "metrics-analyst", "reward-reviewer"]


def test_what_is_committed_is_what_the_source_makes():
    assert differences(ROOT) == [], "run telic plugin build"


def test_the_committed_package_is_sound(tree):
    assert checks.problems(ROOT, tree) == []


def test_every_skill_and_agent_is_there():
    source = read_source()
    assert [page.name for page in source.skills] == [f"telic-{name}" for name in SKILLS]
    assert [page.name for page in source.agents] == AGENTS


def test_building_twice_changes_nothing_and_removes_what_is_too_much(tmp_path):
    assert sorted(write_package(tmp_path)) == sorted(package_files())
    assert write_package(tmp_path) == []
    extra = tmp_path / HOME / "skills" / "old" / "SKILL.md"
    extra.parent.mkdir()
    extra.write_text("left over")
    assert write_package(tmp_path) == [f"{HOME}/skills/old/SKILL.md"]
    assert not extra.exists()


def test_both_hosts_read_the_same_name_and_version():
    files = package_files()
    claude = json.loads(files[f"{HOME}/.claude-plugin/plugin.json"])
    codex = json.loads(files[f"{HOME}/.codex-plugin/plugin.json"])
    assert (claude["name"], claude["version"]) == (codex["name"], codex["version"])
    assert "hooks" not in codex  # its validator refuses the key; the usual place is found


BAD_PAGES = {
    "a command that does not exist": (
        "```sh\ntelic study lauch c-1\n```",
        "no command telic study",
    ),
    "an option that does not exist": ("```sh\ntelic study run c-1 --fast\n```", "--fast"),
    "a missing argument": ("Use `telic study audit`.", "Missing"),
    "a value of the wrong kind": ("```sh\ntelic study run c-1 --seed one\n```", "integer"),
    "a launch": (
        "```sh\ntelic study run c-1 --confirm RUN_CANDIDATE\n```",
        "only telic-run",
    ),
    "a stop": ("`telic study run --stop r-1`", "only telic-run"),
    "a training beside the gate": ("```sh\npython train.py\n```", "one command at a time"),
    "two commands": ("```sh\ntelic study next && python train.py\n```", "one command at a time"),
    "a hidden command": ('```sh\ntelic study report --root "$(python t.py)"\n```', "one command"),
    "a training by telic itself": ("`telic train HalfCheetah-v5`", "only commands of telic study"),
    "a block that could be run": ("```python\nimport train\n```", "could be run"),
    "a block without a language": ("```\npython train.py\n```", "could be run"),
    "a skill that does not exist": ("See `telic-make-coffee`.", "no skill telic-make-coffee"),
    "a link to nowhere": ("[more](more.md)", "there is no more.md"),
    "too long": ("line\n" * 80, "fewer than 80"),
}


@pytest.mark.parametrize("what", BAD_PAGES)
def test_a_page_that_would_mislead_is_found(what, tmp_path, tree, monkeypatch):
    text, complaint = BAD_PAGES[what]
    name = f"{HOME}/skills/telic-audit/SKILL.md"
    files = package_files()
    files[name] = files[name].replace("## Always", f"{text}\n\n## Always")
    found = _found(files, tmp_path, tree, monkeypatch)
    assert len(found) == 1 and complaint in found[0], found


def test_only_the_loop_launches_and_only_with_both_words(tmp_path, tree, monkeypatch):
    files = package_files()
    name = f"{HOME}/skills/telic-run/SKILL.md"
    assert "--confirm RUN_CANDIDATE" in files[name]
    files[name] = files[name].replace(" --confirm RUN_CANDIDATE", " --confirm YES", 1)
    found = _found(files, tmp_path, tree, monkeypatch)
    assert len(found) == 1 and "a launch is written" in found[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("hooks/hooks.json", "hook before-shell", "build", "not one of our hooks"),
        ("hooks/hooks.json", "telic plugin hook at-stop", "sh stop.sh", "not one of our hooks"),
        (".codex-plugin/plugin.json", '"version": "', '"version": "9', "version"),
        (".claude-plugin/plugin.json", '"name": "telic"', '"name": "other"', "name"),
        ("agents/metrics-analyst.md", "tools:", "model:", "not every host knows model"),
        (
            "skills/telic-adapter/SKILL.md",
            "description:",
            'argument-hint: "x"\ndescription:',
            "not every host knows argument-hint",
        ),
        ("skills/telic-adapter/SKILL.md", "name: telic-adapter", "name: other", "its folder's"),
        (".mcp.json", '"command": "telic"', '"command": "python"', "not telic"),
        (".mcp.json", '"serve"', '"swerve"', "no command telic mcp swerve"),
        (".mcp.json", '"serve"', '"serve", "--allow-launch"', "for the person to say"),
    ],
)
def test_wrong_wiring_is_found(name, old, new, complaint, tmp_path, tree, monkeypatch):
    files = package_files()
    assert old in files[f"{HOME}/{name}"]
    files[f"{HOME}/{name}"] = files[f"{HOME}/{name}"].replace(old, new)
    found = _found(files, tmp_path, tree, monkeypatch)
    assert len(found) == 1 and complaint in found[0], found


def test_a_file_that_could_be_executed_is_found(tmp_path, tree, monkeypatch):
    found = _found(
        {**package_files(), f"{HOME}/bin/go.sh": "python t.py"}, tmp_path, tree, monkeypatch
    )
    assert found == ["bin/go.sh: only plain Markdown and JSON files belong into the package"]


def test_front_matter_is_plain_lines():
    assert split_front_matter("---\na: b: c\n---\n\ntext", "x") == ({"a": "b: c"}, "text")
    for bad in ("text", "---\na\n---\n", "---\na: b\n", "---\na: b\na: c\n---\n"):
        with pytest.raises(Exception, match="x"):
            split_front_matter(bad, "x")


def test_nothing_of_a_machine_is_in_the_package():
    for name, text in package_files().items():
        assert not re.search(r"/(?:home|work|tmp|Users)/|localhost", text), name


def _found(files, root, tree, monkeypatch):
    """Return what the checks say of a package that was tampered with."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(package, "package_files", lambda source=None: files)
    monkeypatch.setattr(checks, "second_paths", list)
    return checks.problems(root, tree)
