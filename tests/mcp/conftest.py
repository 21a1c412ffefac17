from contextlib import asynccontextmanager
from inspect import signature

import pytest
from mcp import Client
from mcp.server.mcpserver.tools.base import Tool

from telic.mcp._workplace import ServerContext
from telic.mcp.server import make_server
from tests.mcp.host import Host
from tests.mcp.toy import ENVIRONMENT_SECRET, Person, make_repository
from tests.studies.toy import making as point_mass


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def schemas_once():
    """Work out what a tool takes and gives once: for fifty tools that takes half a second."""
    build, known = Tool.from_function.__func__, {}

    def from_function(cls, fn, **options):
        key = (fn.__qualname__, fn.__name__, fn.__doc__, str(signature(fn)), str(options))
        if key not in known:
            known[key] = build(cls, fn, **options)
        tool = known[key]
        if tool.resolved_params:  # it holds functions of its own server
            return build(cls, fn, **options)
        return tool.model_copy(update={"fn": fn})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tool, "from_function", classmethod(from_function))
        yield


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
    """Open a client of a server in the repository of the toy study."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    point_mass.make_repository(tmp_path / "repo")
    return host_in(tmp_path / "repo")


def host_in(repository):
    @asynccontextmanager
    async def opened(person: Person | None = None, *, allow_launch=False, **options):
        place = ServerContext(repository, repository / "runs", allow_launch=allow_launch)
        async with Client(make_server(place), elicitation_callback=person, **options) as client:
            made = Host(client)
            made.root = repository
            yield made

    return opened
