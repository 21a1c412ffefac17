"""Commands are filled in exactly, run inside the tree, and never meet a shell."""

from pathlib import Path

import pytest

from telic.studies.documents.adapter import Adapter, CommandSpec
from telic.studies.errors import InvalidDocument
from telic.studies.launch.command import Values, build_command, shell_problems
from tests.studies.launch.toy_study import ADAPTER


def adapter(**changes):
    return Adapter.parse({**ADAPTER, **changes})


def values(**changes):
    return Values(seed=7, run_dir=Path("/runs/r1"), overrides={})._replace(**changes)


def build(argv, values=values(), tmp=Path("/repo"), **spec):  # noqa: B008
    changes = {key: spec.pop(key) for key in ("config", "seeds") if key in spec}
    return build_command(adapter(**changes), CommandSpec(argv=tuple(argv), **spec), values, tmp)


def test_placeholders_are_filled_inside_words():
    found = build(["python", "t.py", "seed={seed}", "{run_dir}/log"])
    assert found.argv == ("python", "t.py", "seed=7", "/runs/r1/log")


@pytest.mark.parametrize(
    ("style", "words"),
    [
        ("k=v", ["a.b=0.5", "name=x y", "on=true"]),
        ("--k v", ["--a.b", "0.5", "--name", "x y", "--on", "true"]),
        ("--k=v", ["--a.b=0.5", "--name=x y", "--on=true"]),
        ("file", ["/runs/r1/overrides.json"]),
    ],
)
def test_overrides_are_written_as_the_repository_reads_them(style, words):
    given = values(overrides={"name": "x y", "a.b": 0.5, "on": True})
    config = {"system": "custom", "override_style": style}
    found = build(["python", "t.py", "{overrides}", "--seed", "{seed}"], given, config=config)
    assert list(found.argv[2:-2]) == words


def test_overrides_of_a_repository_that_has_none_are_refused():
    config = {"system": "custom", "override_style": "source_edit"}
    assert build(["python", "t.py", "{seed}"], config=config).argv[-1] == "7"
    with pytest.raises(InvalidDocument, match="changed in its source"):
        build(["python", "t.py", "{seed}"], values(overrides={"a": 1}), config=config)


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--seed", ("--seed", "7")), ("--seed=", ("--seed=7",)), ("seed", ("seed=7",))],
)
def test_a_seed_that_the_command_does_not_place_goes_last(flag, words):
    found = build(["python", "t.py"], seeds={"flag": flag, "controllable": True})
    assert found.argv[2:] == words


def test_a_seed_may_travel_in_the_environment():
    found = build(["python"], seeds={"env_flag": "SEED", "controllable": True})
    assert found.env == {"SEED": "7"} and found.argv == ("python",)


def test_what_is_not_known_is_not_invented():
    with pytest.raises(InvalidDocument, match=r"Nobody said what \{steps\}"):
        build(["python", "{steps}"])
    with pytest.raises(InvalidDocument, match="must stand alone"):
        build(["python", "x{overrides}"])


def test_a_folder_outside_of_the_repository_is_refused():
    with pytest.raises(InvalidDocument, match="outside"):
        build(["python"], cwd="../elsewhere")


def test_the_hash_is_of_words_and_folder():
    one, two = build(["python", "a b"]), build(["python", "a", "b"])
    assert one.hash == build(["python", "a b"]).hash != two.hash
    assert one.hash != build(["python", "a b"], cwd="sub").hash


def test_a_venv_is_entered_without_a_shell(tmp_path):
    found = build(["python"], tmp=tmp_path, activate={"kind": "venv", "path": ".venv"})
    assert found.env["VIRTUAL_ENV"] == str(tmp_path / ".venv")
    assert found.env["PATH"] == f"{tmp_path}/.venv/bin:$PATH"


def test_a_file_of_variables_is_read_and_a_script_refused(tmp_path):
    (tmp_path / "env.sh").write_text("# comment\nexport A=1\nB='two words'\n")
    activate = {"kind": "source_file", "path": "env.sh"}
    assert build(["python"], tmp=tmp_path, activate=activate).env == {"A": "1", "B": "two words"}
    (tmp_path / "env.sh").write_text("export A=$(date)\n")
    with pytest.raises(InvalidDocument, match="line 1, does more than set a variable"):
        build(["python"], tmp=tmp_path, activate=activate)


@pytest.mark.parametrize(
    "argv",
    [
        ("bash", "-c", "x"),
        ("/bin/sh", "-ec", "x"),
        ("python", "a", "&&", "b"),
        ("python", "a", ">", "log"),
        ("python", "a\nb"),
        ("python", "--key=sk-" + "a1B2c3D4" * 4),
    ],
)
def test_what_hopes_for_a_shell_or_shows_a_secret_is_named(argv):
    assert shell_problems(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ("python", "t.py", "++a.b=${c.d}"),
        ("python", "t.py", "x=[1,2]"),
        ("bash", "run.sh"),
        ("python", "-c", "print(1)"),
        ("python", "t.py", "a|b"),
    ],
)
def test_what_needs_no_shell_is_fine(argv):
    assert shell_problems(argv) == []
