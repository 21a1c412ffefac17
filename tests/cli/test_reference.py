"""The page of all commands says what the command line says."""

from scripts.cli_page import PAGE, cli_page

from telic.verbs import catalogue


def words(verbs, path=("telic",)):
    for word, entry in verbs.items():
        yield " ".join((*path, word))
        if not isinstance(entry, str):
            yield from words(entry.verbs, (*path, word))


def test_the_page_of_commands_is_current():
    assert PAGE.read_text(encoding="utf-8") == cli_page(), (
        "Write it anew: python scripts/cli_page.py"
    )


def test_every_command_has_a_heading():
    headings = {line.lstrip("# ") for line in PAGE.read_text().splitlines() if line[:1] == "#"}
    assert {*words(catalogue.VERBS), "telic mcp serve"} <= headings
