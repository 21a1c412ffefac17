"""Parts of other packages: found by name, loaded when used, refused when a name is taken."""

import sys
from textwrap import dedent

import pytest

from telic.core import plugins
from telic.core.plugins import load_plugin, plugin_home, plugin_names
from telic.envs import make
from telic.envs.catalogue import known_ids
from telic.errors import PluginError, UnknownName
from telic.llm import choose
from telic.search.plan import method_names, switches_of


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return who pretends that a package with entry points is installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._entry_points.cache_clear()

    def write(package, group, lines, code="def make(*args, **more):\n    return 'made'\n"):
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[telic.{group}]\n{lines}\n")
        (tmp_path / f"{package}.py").write_text(code)
        plugins._entry_points.cache_clear()

    yield write
    plugins._entry_points.cache_clear()
    for name in ("one", "two", "broken"):
        sys.modules.pop(name, None)


def test_a_part_is_found_by_name_and_its_package_is_imported_when_it_is_used(install, tmp_path):
    install("one", "judges", "strict = one:make")
    assert plugin_names("judges") == ["strict"] and "one" not in sys.modules
    assert load_plugin("judges", "strict")() == "made" and "one" in sys.modules
    assert plugin_home("judges", "strict") == tmp_path
    assert load_plugin("judges", "lenient") is None


def test_no_package_may_take_a_name_of_ours(install):
    install("one", "providers", "anthropic = one:make")
    with pytest.raises(PluginError, match=r"telic and by one \(telic.providers\)"):
        choose("acme:large")
    assert choose("anthropic:claude-sonnet-5-5").name == "anthropic:claude-sonnet-5-5"


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("make = 3", "a int that is not callable"),
        ("", "AttributeError"),
    ],
)
def test_a_broken_package_says_which_one_it_is_and_what_to_do(install, code, complaint):
    install("broken", "environments", "Bounce-v0 = broken:make", code)
    with pytest.raises(PluginError, match="broken provides") as caught:
        make("Bounce-v0", num_envs=1)
    assert complaint in caught.value.message and caught.value.hint


def test_environments_methods_and_providers_of_packages_are_known_by_name(install):
    pendulum = """
        import telic

        def make(**more):
            return telic.make("InvertedPendulum-v5", **more)
    """
    install("one", "environments", "Bounce-v0 = one:make", dedent(pendulum))
    env = make("Bounce-v0", num_envs=2, max_episode_steps=7)
    assert (env.spec.id, env.num_envs, env.max_episode_steps) == ("Bounce-v0", 2, 7)
    assert "Bounce-v0" in known_ids()
    with pytest.raises(UnknownName, match="Closest: Bounce-v0"):
        make("Bounc-v0", num_envs=1)
    install("two", "proposers", "swarm = two:make")
    assert switches_of("swarm").proposer == "swarm" and "swarm" in method_names()
    with pytest.raises(UnknownName, match="swarm"):
        switches_of("swarn")
