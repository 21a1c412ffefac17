import pytest

from telic.errors import UsageError
from telic.llm import prompt_hash, render


def test_values_are_put_in_their_places():
    assert render("Do {{what}}, {{ what }} in {{where}}.", what="x", where=1) == "Do x, x in 1."


def test_a_value_is_never_read_as_a_template():
    assert render("{{a}} {{b}}", a="{{b}}", b="}}") == "{{b}} }}"


def test_a_missing_name_is_refused():
    with pytest.raises(UsageError, match=r"needs a value for \{\{intent\}\}.*Given: env"):
        render("{{intent}}", env="Ant")


def test_an_unused_name_is_refused():
    with pytest.raises(UsageError, match="no place for: env"):
        render("{{intent}}", intent="run", env="Ant")


@pytest.mark.parametrize("template", ["{{a", "{{a b}}", "{{}}", "{{1}}"])
def test_what_is_no_placeholder_is_refused(template):
    with pytest.raises(UsageError, match="not a placeholder"):
        render(template, a=1)


def test_a_template_without_places_is_itself():
    assert render("a { b } c") == "a { b } c"


def test_the_version_changes_with_the_template():
    assert prompt_hash("a") == prompt_hash("a") != prompt_hash("b")
