"""A refused request leaves no files: no folder, nothing to list, nothing to resume."""

import pytest

from telic.errors import TelicError, UsageError
from telic.session.loop import run_session
from telic.storage.files import write_json
from telic.storage.layout import SessionFolder, new_name
from telic.storage.locks import RunLock
from telic.storage.workspace import Workspace
from telic.verbs.artifacts import list_artifacts
from telic.verbs.control import note, resume

REQUEST = {"intent": "run", "env": "HalfCheetah-v5"}
REFUSED = {
    "no such environment": ("run forward", {"env": "Nope-v3"}),
    "no such file": ("run forward", {"env": "missing.xml"}),
    "nothing the robot can do": ("play chess", {}),
    "no such provider": ("run forward", {"model": "nobody:nothing"}),
    "no such device": ("run forward", {"device": "gpu"}),
    "devices of two kinds": ("run forward", {"devices": ("cpu", "cuda:0")}),
    "no such judge": ("run forward", {"judge": "nobody"}),
    "nothing": ("", {}),
    "blanks": (" \t\n", {}),
    "no word": ("?!", {}),
    "no criteria": ("run forward", {"criteria": ()}),
    "no seeds": ("run forward", {"seeds": ()}),
    "a seed twice": ("run forward", {"seeds": (1, 1)}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_leaves_no_folder(name, tmp_path):
    intent, options = REFUSED[name]
    with pytest.raises(TelicError) as refused:
        run_session(intent, runs_dir=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []
    assert "Error" not in refused.value.message and "validation" not in refused.value.message


def test_a_session_that_was_killed_before_it_read_its_intent_is_nobodys_latest(tmp_path):
    folder = SessionFolder(tmp_path / new_name("session"))
    write_json(folder.config, REQUEST)
    folder.events.touch()
    folder.lock.touch()
    assert list_artifacts(runs_dir=tmp_path).data == []
    for ask in (lambda: resume(runs_dir=tmp_path), lambda: note("slower", runs_dir=tmp_path)):
        with pytest.raises(UsageError, match="found in"):
            ask()
    with RunLock(folder.lock):  # while it is about to, people can stop it
        assert [line.id for line in list_artifacts(runs_dir=tmp_path).data] == [folder.name]
        assert Workspace(tmp_path).session().path == folder.path
