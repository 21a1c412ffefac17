"""The committed plugin matches its source and is valid, and defects are found."""

import json
import re
from pathlib import Path

import pytest

from telic.errors import Refused
from telic.plugin.package import (
    HOME,
    differences,
    package_files,
    read_skills,
    write_package,
)
from tests.plugin import checks

ROOT = Path(__file__).parents[2]

SKILLS = [
    *("adapter", "audit", "contract", "propose", "review", "reward", "robustness", "run"),
]
RULES = next(read_skills()).text.partition("## Always")[2]
AGENTS = ["experiment-director", "metrics-analyst", "reward-reviewer"]


def test_what_is_committed_is_what_the_source_makes():
    assert differences(ROOT) == [], "run telic plugin"


def test_the_committed_package_is_sound(tree):
    assert checks.problems(ROOT, tree) == []


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


def test_both_hosts_read_the_same_name_and_version():
    files = package_files()
    claude = json.loads(files[f"{HOME}/.claude-plugin/plugin.json"])
    codex = json.loads(files[f"{HOME}/.codex-plugin/plugin.json"])
    assert (claude["name"], claude["version"]) == (codex["name"], codex["version"])
    assert "hooks" not in codex  # its validator refuses the key; the usual place is found


BAD_PAGES = {
    "a command that does not exist": ("`telic study lauch c-1`", "no command telic study"),
    "an option that does not exist": ("`telic study run c-1 --fast`", "--fast"),
    "a launch": ("`telic study run c-1 --confirm RUN_CANDIDATE`", "only telic-run"),
    "a training beside the gate": ("```sh\npython train.py\n```", "one command at a time"),
    "a block that could be run": ("```python\nimport train\n```", "could be run"),
}


@pytest.mark.parametrize("what", BAD_PAGES)
def test_a_page_that_would_mislead_is_found(what, tmp_path, tree):
    text, complaint = BAD_PAGES[what]
    write_package(tmp_path)
    page = tmp_path / HOME / "skills/telic-audit/SKILL.md"
    page.write_text(page.read_text().replace("## Always", f"{text}\n\n## Always"))
    found = checks.problems(tmp_path, tree)
    assert len(found) == 1 and complaint in found[0], found


def test_nothing_of_a_machine_is_in_the_package():
    for name, text in package_files().items():
        assert not re.search(r"/(?:home|work|tmp|Users)/|localhost", text), name
