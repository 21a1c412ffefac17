from pathlib import Path

from telic.llm import CallLimits, Request
from telic.llm.keys import KEY_NAMES

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "how-to" / "use-a-model.md").read_text()
REFERENCE = (DOCS / "reference" / "models.md").read_text()


def test_the_snippet_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = GUIDE.split("```py\n")[1].split("```")[0]
    exec(compile(code, "use-a-model.md", "exec"), {"__name__": __name__})
    assert list((tmp_path / "session" / "replies").glob("*.json"))


def test_the_reference_names_every_field_limit_and_key():
    names = [*Request.model_fields, *CallLimits.model_fields]
    names += [name for group in KEY_NAMES.values() for name in group]
    assert [name for name in names if name not in REFERENCE] == []
    for name, field in CallLimits.model_fields.items():
        assert f"| `{name}` | {field.default:g} |" in REFERENCE
