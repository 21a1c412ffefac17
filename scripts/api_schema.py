"""Write the API as OpenAPI, web/src/api/schema.json, and its page, docs/reference/api.md.

    python scripts/api_schema.py            write both files
    python scripts/api_schema.py --print    print the description instead

The pages' client is generated from the description. tests/web/test_schema.py fails when one of them
is stale.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from telic.web._place import WebPlace
from telic.web.app import make_app

ROOT = Path(__file__).parent.parent
FILE = ROOT / "web" / "src" / "api" / "schema.json"
PAGE = ROOT / "docs" / "reference" / "api.md"

HEAD = """# The dashboard's API

Generated from the server by `python scripts/api_schema.py`; do not edit.

```sh
TELIC_WEB_TOKEN=$(openssl rand -hex 32) telic serve --no-open --port 8764
curl -H "Authorization: Bearer $TELIC_WEB_TOKEN" http://127.0.0.1:8764/api/artifacts
```

- **OpenAPI**: `web/src/api/schema.json`, and `/api/openapi.json` of a server.
- **Access**: every request needs the token, as a header or as the cookie that the printed address
  sets. Requests with another `Host` or `Origin` are refused.
- **Names**: `{thing}` is an exact id as in `/api/artifacts`; a study is `task~study`. Files are
  addressed by keys, never by paths.
- **Reads** change nothing. Long work starts in its own process (`202`, a job) and continues without
  the server.
- **Events** have their position in the log as id; a stream continues after `after` or
  `Last-Event-ID`. Between events a stream sends `pulse`: the state and the training progress.
- **Errors** are `{"message", "hint"}`: 401 no token, 403 another origin, 404 unknown name, 409
  refused or damaged, 422 invalid request.
- **Secrets**: keys of model providers are removed from all responses.
"""


@cache
def _described() -> dict[str, Any]:
    return make_app(WebPlace(Path("runs"), Path())).openapi()


def api_schema() -> str:
    """Return the description as JSON."""
    return json.dumps(_described(), indent=1, sort_keys=True) + "\n"


def api_page() -> str:
    """Return the page: every route by what it is about."""
    groups: dict[str, list[str]] = {}
    for path, ways in _described()["paths"].items():
        for method, how in ways.items():
            does = (how.get("description") or how["summary"]).partition("\n\n")[0]
            line = f"| `{method.upper()} {path}` | {' '.join(does.split())} |"
            groups.setdefault(how["tags"][0], []).append(line.replace("\\", ""))
    parts = [HEAD]
    for name, rows in groups.items():
        parts.append("\n".join((f"## {name}\n", "| route | does |", "|---|---|", *rows)) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(api_schema())
    else:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(api_schema(), encoding="utf-8")
        PAGE.write_text(api_page(), encoding="utf-8")
