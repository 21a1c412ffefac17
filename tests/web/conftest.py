"""A runs folder that is written, not trained, and one application that is shown it."""

from functools import cache

import pytest
from starlette.testclient import TestClient

from telic.web._place import WebPlace
from telic.web.app import gated
from tests.web.made import make_workspace

TOKEN = "t" * 32
HOST = "http://127.0.0.1:8764"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Workspace that no test changes."""
    return make_workspace(tmp_path_factory.mktemp("web"))


@pytest.fixture
def own(tmp_path):
    """The same for a test that changes it."""
    return make_workspace(tmp_path)


@cache
def application():
    """Return an application and its place; making one takes most of a second."""
    place = WebPlace(None, None)
    return gated(place, TOKEN), place


def client_of(root, token=TOKEN, **headers):
    """Return a client of the application, which works in a folder from now on."""
    app, place = application()
    place.__init__(root / "runs", root)
    given = {"authorization": f"Bearer {token}"} if token else {}
    return TestClient(app, base_url=HOST, headers=given | headers, raise_server_exceptions=False)


@pytest.fixture
def client(made):
    return client_of(made)
