from contextlib import asynccontextmanager

import pytest
from mcp import Client

from telic.mcp.server import make_server
from telic.mcp.workplace import Workplace
from tests.mcp.host import Host
from tests.mcp.toy import ENVIRONMENT_SECRET, Person, make_repository
from tests.studies.toy import making as point_mass


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with nothing of ours in it, and a user with secrets."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("TOY_API_KEY", ENVIRONMENT_SECRET)
    make_repository(tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture
def host(repository):
    """Open a client of a server in this process: `async with host(...) as call`."""
    return host_in(repository)


@pytest.fixture
def toy_host(tmp_path, monkeypatch):
    """The same in the repository of the toy study."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    point_mass.make_repository(tmp_path / "repo")
    return host_in(tmp_path / "repo")


def host_in(repository):
    @asynccontextmanager
    async def opened(person: Person | None = None, *, allow_launch=False, **options):
        place = Workplace(repository, repository / "runs", allow_launch=allow_launch)
        async with Client(make_server(place), elicitation_callback=person, **options) as client:
            yield Host(client)

    return opened
