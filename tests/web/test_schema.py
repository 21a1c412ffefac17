"""The description of the API that the pages' client is made from."""

from scripts.api_schema import FILE, PAGE, api_page, api_schema


def test_the_description_of_the_api_is_not_stale():
    assert FILE.read_text() == api_schema(), "run python scripts/api_schema.py"


def test_the_page_of_the_api_is_not_stale():
    assert PAGE.read_text() == api_page(), "run python scripts/api_schema.py"
