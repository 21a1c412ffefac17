"""A model and a thinking effort for each role, from one budget."""

from pathlib import Path

import pytest

from telic import llm
from telic.authors._cast import RoleModels, connect_models
from telic.authors._model import ModelAuthor
from telic.authors.author import Brief
from telic.authors.request import ROLES, SessionConfig
from telic.core.text import texts
from telic.envs import make
from telic.errors import BadFile, ConfigError, UnknownName, UsageError
from telic.llm import Models
from telic.session._report_sections import EndedSession, command
from telic.storage.files import read_record, write_json
from telic.storage.layout import SessionFolder
from telic.testing.models import Scripted
from tests.authors.scripts import SCRIPT


@pytest.fixture(scope="module")
def spec():
    return make("HalfCheetah-v5", num_envs=1).spec


def config(**options):
    return SessionConfig.parse({"intent": "run", "env": "HalfCheetah-v5", **options})


def author(cast, spec, folder):
    return ModelAuthor(cast, Brief(config(), spec, SessionFolder(folder)))


def test_each_role_is_asked_of_its_model_with_its_effort(tmp_path, spec):
    usual, other = Scripted(SCRIPT, name="one"), Scripted(SCRIPT, name="two")
    players = RoleModels(
        Models(usual, tmp_path),
        {"judge_author": Models(other, tmp_path)},
        {"reward_author": "high"},
    )
    writer = author(players, spec, tmp_path)
    writer.write(writer.read())
    asked = {request.role: request.effort for request in usual.requests}
    assert asked == {"elicitor": None, "reward_author": "high"}
    assert [request.role for request in other.requests] == ["judge_author"]


def test_a_model_that_plays_several_roles_is_connected_once(tmp_path, spec, monkeypatch):
    asked = []

    def connect(name, folder, **more):
        asked.append((name, id(more["budget"])))
        return Models(Scripted(SCRIPT, name=name), folder, **more)

    monkeypatch.setattr(llm, "connect", connect)
    roles = {"vision": "b", "reviewer": "a", "judge_author": "b"}
    brief = Brief(config(model="a", model_for=roles), spec, SessionFolder(tmp_path))
    players = connect_models(brief)
    assert [name for name, _ in asked] == ["a", "b"] and len({budget for _, budget in asked}) == 1
    assert players.player("vision").provider.name == "b"
    assert players.player("reviser").provider.name == "a"


def test_a_session_keeps_models_and_efforts_by_role():
    asked = config(
        model="host",
        model_for=texts(["vision=google:x"], "--model-for"),
        effort_for={"reviewer": "low"},
    )
    again = SessionConfig.model_validate_json(asked.model_dump_json())
    assert again == asked and again.model_for == {"vision": "google:x"}
    assert config(model_for=None, effort_for=None) == config()
    reported = command(asked, Path("session.json"))
    assert "--model-for vision=google:x" in reported and "--effort-for reviewer=low" in reported
    assert EndedSession(None, asked, None, [], None).author_name == "host (vision: google:x)"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"model": "host", "model_for": {"visoin": "host"}}, UsageError, ", ".join(ROLES)),
        ({"model": "host", "effort_for": {"author": "high"}}, UsageError, ", ".join(ROLES)),
        ({"model": "host", "effort_for": {"reviewer": "hgih"}}, UnknownName, "high"),
        ({"model_for": {"vision": "host"}}, ConfigError, "--model"),
        ({"effort_for": {"vision": "low"}}, ConfigError, "--model"),
    ],
)
def test_a_role_or_effort_that_is_none_is_refused_with_the_nearest(options, error, words):
    with pytest.raises(error, match=words):
        config(**options)


@pytest.mark.parametrize("value", [True, 5, [5], "x"])
@pytest.mark.parametrize("field", ["model_for", "effort_for", "devices"])
def test_a_stored_request_with_values_of_another_kind_is_damaged(tmp_path, field, value):
    write_json(tmp_path / "session.json", {"intent": "run", field: value})
    with pytest.raises(BadFile, match=r"session\.json"):
        read_record(tmp_path / "session.json", SessionConfig)
