"""The verbs that start nothing work where there is no network at all."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.studies.launch.toy_study import make_baseline, make_study

_VERBS = """
import importlib, json, socket, sys
from pathlib import Path
from telic.core.verb import Verb
from telic.errors import TelicError
from telic.verbs.study import RootRequest
root, done = Path(sys.argv[1]), {}
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
    sys.exit("there is a network")
except OSError:
    pass
for name in ("", "_candidates", "_runs", "_server"):
    module = importlib.import_module("telic.verbs.study" + name)
    for word, verb in vars(module).items():
        if not isinstance(verb, Verb) or verb.__module__ != module.__name__:
            continue
        if not issubclass(verb.request, RootRequest):
            continue
        given = {"root": root, "candidate": sys.argv[2], "because": "a test", "says": "a test"}
        given = {key: given[key] for key in given if key in verb.request.model_fields}
        try:
            request = verb.request(**given)
        except (TypeError, ValueError, TelicError):
            continue  # it wants more than a study and a candidate
        try:
            verb.do(request)
            done[word] = "done"
        except TelicError as error:
            done[word] = str(error)[:80]
print(json.dumps(done))
"""


def _has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.slow
def test_what_starts_nothing_needs_no_network(tmp_path):
    if not _has_namespaces():
        pytest.skip("this machine lets nobody make a namespace without network (unshare -rn)")
    study = make_study(tmp_path / "repo")
    name = make_baseline(study, (1,))
    words = ["unshare", "-rn", sys.executable, "-c", _VERBS, str(study.root), str(name)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    told = json.loads(done.stdout)
    worked = {name for name, said in told.items() if said == "done"}
    assert {"adapter", "contract", "next_action", "verify", "report"} <= worked, told
    assert len(told) > 15
