import pytest

from telic.errors import UsageError
from telic.llm import render


def test_values_are_put_in_their_places():
    assert render("Do {{what}}, {{ what }} in {{where}}.", what="x", where=1) == "Do x, x in 1."


def test_a_value_is_never_read_as_a_template():
    assert render("{{a}} {{b}}", a="{{b}}", b="}}") == "{{b}} }}"


def test_a_missing_name_is_refused():
    with pytest.raises(UsageError, match="needs a value for intent"):
        render("{{intent}}", env="Ant")


def test_an_unused_name_is_refused():
    with pytest.raises(UsageError, match="no place for: env"):
        render("{{intent}}", intent="run", env="Ant")


@pytest.mark.parametrize("template", ["{{a", "{{a b}}", "{{}}", "{{1}}"])
def test_what_is_no_placeholder_is_refused(template):
    with pytest.raises(UsageError, match="begins no"):
        render(template, a=1)
