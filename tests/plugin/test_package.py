"""The committed plugin matches its source, is text only and leads to runs through the gate."""

import json
import re
import shlex
from pathlib import Path

import pytest

from telic.errors import Refused
from telic.plugin.hooks import HOOKS
from telic.plugin.package import (
    HOME,
    differences,
    package_files,
    read_skills,
    split_front_matter,
    write_package,
)
from tests.plugin.pages import commands, program_words

ROOT = Path(__file__).parents[2]

SKILLS = [
    *("adapter", "audit", "contract", "propose", "review", "reward", "robustness", "run"),
]
RULES = next(read_skills()).text.partition("## Always")[2]
AGENTS = ["experiment-director", "metrics-analyst", "reward-reviewer"]


def test_what_is_committed_is_what_the_source_makes():
    assert differences(ROOT) == [], "run telic plugin"


def test_the_package_is_text_that_cannot_be_executed():
    for path in filter(Path.is_file, (ROOT / HOME).rglob("*")):
        assert not path.is_symlink() and path.suffix in (".md", ".json"), path
        assert not path.stat().st_mode & 0o111, path


def test_hosts_are_wired_to_the_hooks_and_to_a_server_that_may_not_launch():
    wired = json.loads((ROOT / HOME / "hooks/hooks.json").read_text())["hooks"]
    lines = [
        hook["command"] for each in wired.values() for entry in each for hook in entry["hooks"]
    ]
    assert {line.rpartition(" ")[2] for line in lines} <= set(HOOKS) and lines
    assert all(program_words(line)[:3] == ["telic", "plugin", "hook"] for line in lines)
    (server,) = json.loads((ROOT / HOME / ".mcp.json").read_text())["mcpServers"].values()
    assert server["command"] == "telic" and "--allow-launch" not in server["args"]


@pytest.mark.parametrize("path", sorted((ROOT / HOME).rglob("*.md")), ids=lambda path: path.stem)
def test_pages_have_a_short_head_and_only_one_leads_to_a_launch(path):
    text = path.read_text()
    name = path.parent.name if path.name == "SKILL.md" else path.stem
    head, _ = split_front_matter(text, name)
    assert head["name"] == name and len(head["description"]) <= 1024
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        assert (path.parent / link).exists(), link
    assert set(re.findall(r"^ *```(\w+)$", text, re.MULTILINE)) <= {"sh", "yaml", "json", "text"}
    for line in commands(text):
        words = program_words(line)
        assert not {";", "&&", "|", "&"} & set(shlex.split(line)), line
        assert words[0] == "sha256sum" or words[1] in ("study", "plugin", "verify"), line
        assert name == "telic-run" or not {"--confirm", "--smoke", "--stop"} & set(words), line


def test_every_skill_and_agent_is_there():
    skills = list(read_skills())
    assert [skill.name for skill in skills] == [f"telic-{name}" for name in SKILLS]
    assert {skill.text.partition("## Always")[2] for skill in skills} == {RULES}
    agents = [Path(name).stem for name in package_files() if f"{HOME}/agents/" in name]
    assert agents == AGENTS


def test_building_twice_changes_nothing_and_removes_what_is_too_much(tmp_path):
    assert sorted(write_package(tmp_path)) == sorted(package_files())
    assert write_package(tmp_path) == []
    extra = tmp_path / HOME / "skills" / "old" / "SKILL.md"
    extra.parent.mkdir()
    extra.write_text("left over")
    assert write_package(tmp_path) == [f"{HOME}/skills/old/SKILL.md"]
    assert not extra.exists()


@pytest.mark.parametrize("link", ["plugins", "plugins/telic", "plugins/telic/skills"])
def test_nothing_behind_a_link_of_the_repository_is_deleted(tmp_path, link):
    theirs = tmp_path / "theirs" / "telic"
    theirs.mkdir(parents=True)
    (theirs / "thesis.md").write_text("mine")
    path = tmp_path / "repository" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(theirs.parent if link == "plugins" else theirs)
    with pytest.raises(Refused, match="is behind a link"):
        write_package(tmp_path / "repository")
    assert [each.name for each in theirs.iterdir()] == ["thesis.md"]


def test_a_catalogue_of_other_plugins_is_not_replaced(tmp_path):
    catalogue = tmp_path / ".claude-plugin" / "marketplace.json"
    catalogue.parent.mkdir()
    catalogue.write_text('{"name": "ours", "plugins": []}')
    with pytest.raises(Refused, match="lists other plugins"):
        write_package(tmp_path)
    assert list(tmp_path.rglob("*.json")) == [catalogue] and "ours" in catalogue.read_text()


def test_nothing_of_a_machine_is_in_the_package():
    for name, text in package_files().items():
        assert not re.search(r"/(?:home|work|tmp|Users)/|localhost", text), name
