"""Documents: closed, versioned, hashed; YAML as people keep it."""

import pytest
from pydantic import ValidationError

from telic.studies.contract import protocol_hash
from telic.studies.documents.adapter import CommandSpec
from telic.studies.documents.base import (
    read_yaml,
    update_yaml,
)
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Protocol, Scope, SeedPools, seeds_of
from telic.studies.errors import InvalidDocument, StudyError
from tests.studies.core.small import add_candidate

PROTOCOL = {"schema": "telic.eval_protocol/1", "episodes": 3}


def test_unknown_keys_are_errors_and_free_ones_are_not():
    assert Protocol.parse({**PROTOCOL, "x-note": 1}).model_extra == {"x-note": 1}
    with pytest.raises(InvalidDocument, match="unknown key episode") as error:
        Protocol.parse({**PROTOCOL, "episode": 1})
    assert (error.value.code, error.value.exit_code) == ("E_SCHEMA", 4)
    with pytest.raises(ValidationError, match="unknown key kind"):
        Scope.model_validate({"kind": ["config"]})


def test_another_schema_is_refused():
    for schema, code in (
        ("telic.eval_protocol/2", "E_SCHEMA_MAJOR"),
        ("telic.contract/1", "E_SCHEMA"),
        (None, "E_SCHEMA"),
    ):
        with pytest.raises(InvalidDocument) as error:
            Protocol.parse({**PROTOCOL, "schema": schema})
        assert error.value.code == code


def test_the_content_hash_leaves_out_what_the_system_keeps(agreed):
    made = add_candidate(agreed)
    moved = made.model_copy(update={"status": CandidateStatus.REJECTED, "phase": "smoke"})
    assert moved.compute_hash() == made.compute_hash()
    other = made.model_copy(update={"parents": ("c-0000-x",)})
    assert other.compute_hash() != made.compute_hash()


def test_the_protocol_hash_covers_how_results_are_measured():
    command = CommandSpec(argv=("python", "eval.py"), env={"A": "1"})
    base = Protocol(episodes=3, command=command)
    same = Protocol(episodes=3, command=command.model_copy(update={"env": {}}))
    assert protocol_hash(base, None) == protocol_hash(same, None)
    assert protocol_hash(base, None) != protocol_hash(base, "0" * 64)
    for change in ({"episodes": 4}, {"eval_seeds": (1,)}, {"checkpoint_selection": "fixed_step"}):
        assert protocol_hash(base.model_copy(update=change), None) != protocol_hash(base, None)


def test_seed_ranges():
    assert seeds_of("1-3, 7") == {1, 2, 3, 7}
    assert SeedPools().pool("validation") == set(range(900, 1000))
    with pytest.raises(ValidationError, match="range of seeds"):
        SeedPools(selection="one")


# ---------------------------------------------------------------------------- files


def test_what_is_not_plain_yaml_is_refused_with_a_place(tmp_path):
    path = tmp_path / "a.yaml"
    for text, why in (
        ("a: 1\nb: 2\na: 3\n", "line 3"),
        ("!!python/object/apply:os.system ['true']", "E_YAML"),
        ("a: [1, 2", "E_YAML"),
        ("a: b: c", "E_YAML"),
        ("\tkey: 1", "E_YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidDocument, match=why):
            read_yaml(path)


def test_dates_are_text_and_missing_files_are_named(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("at: 2026-08-01\n")
    assert read_yaml(path) == {"at": "2026-08-01"}
    with pytest.raises(StudyError, match="File not found"):
        read_yaml(tmp_path / "none.yaml")


def test_changes_keep_comments_quotes_and_order(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text('# top\nb: "1-3"   # pool\na:\n  x: 1  # one\n')
    update_yaml(path, {"a": {"y": 2}, "c": None})
    text = path.read_text()
    assert '# top\nb: "1-3"   # pool\na:\n  x: 1  # one\n' in text
    assert read_yaml(path) == {"b": "1-3", "a": {"x": 1, "y": 2}, "c": None}
