"""Write web/src/api/schema.json, the description of the dashboard's API (OpenAPI).

    python scripts/api_schema.py            write the file
    python scripts/api_schema.py --print    print it instead

The pages' client is generated from it. tests/web/test_schema.py fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from telic.web.app import make_app
from telic.web.place import WebPlace

FILE = Path(__file__).parent.parent / "web" / "src" / "api" / "schema.json"


def api_schema() -> str:
    """Return the description as JSON."""
    app = make_app(WebPlace(Path("runs"), Path()))
    return json.dumps(app.openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    if "--print" in sys.argv:
        sys.stdout.write(api_schema())
    else:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(api_schema(), encoding="utf-8")
