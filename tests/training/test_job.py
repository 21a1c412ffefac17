"""The settings' reference page is what the code says."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "settings_page.py"


def test_the_reference_page_is_current():
    page = runpy.run_path(str(SCRIPT))
    assert page["PAGE"].read_text() == page["settings_page"]()
