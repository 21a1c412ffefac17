"""Requests generated from the API's schema: the server answers all of them."""

import copy
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.web.conftest import application, client_of
from tests.web.made import RUN, SEARCH, SESSION

STARTS = ("/api/start/", "/export", "/resume", "/doctor", "/stream", "/pictures/", "/map")
"""routes that start a process, or never end"""


def operations(stride: int):
    """Return the operations of every so manieth path; answers are not generated, nor described."""
    import schemathesis  # seconds, in the one process that needs it

    app, _ = application()
    described = copy.deepcopy(app._app.openapi())
    names = [path for path in described["paths"] if not any(mark in path for mark in STARTS)]
    described["paths"] = {path: described["paths"][path] for path in names[::stride]}
    for ways in described["paths"].values():
        for how in ways.values():
            how["responses"] = {"200": {"description": "done"}}
    schema = schemathesis.openapi.from_dict(described)
    return [each.ok() for each in schema.get_all_operations()]


def fuzz(root, examples: int, stride: int = 1) -> int:
    client, tried = client_of(root), 0
    names = st.sampled_from([SESSION, RUN, SEARCH]) | st.text(max_size=20)

    for operation in operations(stride):

        @given(case=operation.as_strategy(), name=names)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def attempt(case, name):
            nonlocal tried
            if "artifact" in (case.path_parameters or {}):
                case.path_parameters["artifact"] = quote(name, safe="")
            arguments = case.as_transport_kwargs(base_url="http://127.0.0.1:8764")
            arguments["headers"] = dict(client.headers) | {
                key: value
                for key, value in (arguments.get("headers") or {}).items()
                if key.lower() not in ("authorization", "host", "user-agent")
            }
            arguments.pop("cookies", None)
            answer = client.request(**arguments)
            tried += 1
            assert answer.status_code < 500, (case.method, case.path, arguments, answer.text)

        attempt()
    return tried


def test_nothing_that_fits_the_description_breaks_the_server(own):
    assert fuzz(own, examples=2, stride=16) > 5


@pytest.mark.long
def test_nothing_among_many_requests_breaks_the_server(own):
    tried = fuzz(own, examples=200)
    print(f"{tried:,} requests, none failed")
    assert tried > 5000
