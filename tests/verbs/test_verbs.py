"""A verb is written once: its request gives Python its signature and the command line its words."""

import inspect
import subprocess
import sys

import pytest

import telic
from telic.authors.request import SessionConfig
from telic.core.request import fields_of
from telic.errors import UnknownName
from telic.training.job import TrainJob, TrainRequest
from telic.verbs import catalogue
from telic.verbs.session import IntentRequest


def words(verbs, path=()):
    for word, entry in verbs.items():
        if isinstance(entry, str):
            yield " ".join((*path, word)), entry
        else:
            yield from words(entry.verbs, (*path, word))


def test_python_sees_every_option_of_a_verb():
    seen = inspect.signature(telic.train).parameters
    assert list(seen)[:2] == ["env", "reward"] and seen["steps"].default is None
    assert "Steps per member" in telic.train.__doc__


def test_every_field_of_every_verb_says_what_it_is():
    for word, path in words(catalogue.VERBS):
        verb = catalogue.load_verb(path)
        assert catalogue.summary(path) == verb.help.splitlines()[0], word
        assert verb.help, word
        for field in fields_of(verb.request):
            assert field.help or field.how.hidden, (word, field.name)


def test_defaults_of_a_request_are_those_of_what_is_kept():
    for request, kept in ((IntentRequest, SessionConfig), (TrainRequest, TrainJob)):
        for field in fields_of(request):
            known = kept.model_fields.get(field.name)
            if known is not None and not known.is_required() and not field.is_required:
                assert (known.default or None) == (field.default or None), field.name


TRAINED = """
import sys
import telic.verbs.train
from telic import training
print(training.run.__name__, training.videos.__name__, "torch" in sys.modules)
"""


def test_train_starts_its_worker_before_torch_is_imported():
    command = [sys.executable, "-c", TRAINED]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.split()[-1] == "False"


BEGUN = """
import sys
from telic.cli.main import app
from telic.sandbox import fork_server

def prewarmed(modules):
    loaded = {"torch", "mujoco", "numpy"} & set(sys.modules)
    sys.exit(f"{modules[0]} starts, {sorted(loaded)} are loaded")

fork_server.prewarmed = prewarmed
app(["run", "run forward", "--runs-dir", sys.argv[1]])
"""


def test_session_loads_its_workers_in_parallel(tmp_path):
    command = [sys.executable, "-c", BEGUN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == "telic.training._worker starts, [] are loaded\n"


def test_a_word_that_a_field_does_not_know_is_refused():
    with pytest.raises(UnknownName, match="trainer"):
        TrainRequest("Ant-v5", trainer="rllib")
