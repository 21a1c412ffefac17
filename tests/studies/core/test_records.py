"""Documents: closed, versioned, hashed; YAML as people keep it."""

import pytest
from pydantic import ValidationError

from telic.studies.contract import protocol_hash
from telic.studies.documents.adapter import CommandSpec
from telic.studies.documents.base import (
    read_yaml,
)
from telic.studies.documents.contract import Protocol, Scope
from telic.studies.errors import InvalidDocument

PROTOCOL = {"schema": "telic.eval_protocol/1", "episodes": 3}


def test_unknown_keys_are_errors_and_free_ones_are_not():
    assert Protocol.parse({**PROTOCOL, "x-note": 1}).model_extra == {"x-note": 1}
    with pytest.raises(InvalidDocument, match="unknown key episode") as error:
        Protocol.parse({**PROTOCOL, "episode": 1})
    assert (error.value.code, error.value.exit_code) == ("E_SCHEMA", 4)
    with pytest.raises(ValidationError, match="unknown key kind"):
        Scope.model_validate({"kind": ["config"]})


def test_the_protocol_hash_covers_how_results_are_measured():
    command = CommandSpec(argv=("python", "eval.py"), env={"A": "1"})
    base = Protocol(episodes=3, command=command)
    same = Protocol(episodes=3, command=command.model_copy(update={"env": {}}))
    assert protocol_hash(base, None) == protocol_hash(same, None)
    assert protocol_hash(base, None) != protocol_hash(base, "0" * 64)
    for change in ({"episodes": 4}, {"eval_seeds": (1,)}, {"checkpoint_selection": "fixed_step"}):
        assert protocol_hash(base.model_copy(update=change), None) != protocol_hash(base, None)


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


def test_another_schema_is_refused():
    for schema, code in (
        ("telic.eval_protocol/2", "E_SCHEMA_MAJOR"),
        ("telic.contract/1", "E_SCHEMA"),
        (None, "E_SCHEMA"),
    ):
        with pytest.raises(InvalidDocument) as error:
            Protocol.parse({**PROTOCOL, "schema": schema})
        assert error.value.code == code
