"""The settings' reference page is what the code says."""

from pathlib import Path

from telic.training.job import settings_page


def test_the_reference_page_is_current():
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    assert page.read_text() == settings_page()
