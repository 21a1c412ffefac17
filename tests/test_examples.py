"""Every example and every snippet of the documentation runs as written."""

import ast
import html
import json
import re
import runpy
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import telic
from telic.cli.main import app

ROOT = Path(__file__).parent.parent
REWARD = ROOT / "examples/obey_commands.py"  # given by its path; test_probe holds that it is sound
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path != REWARD]
LONG = ("population", "watch_training", "policy_in_gymnasium", "reference_reward", "memory_reward")
SLOW = ("own_reward", "other_environments", "own_robot", "export_onnx")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_PAGES = [*PAGES, *sorted((ROOT / "src/telic/plugin").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
REWARDS = [
    (page, code)
    for page in PAGES
    for code in SNIPPET.findall(page.read_text())
    if re.search(r"^(class|def) ", code, re.MULTILINE)
    and "telic.train(" not in code
    and page.stem != "motion-tracking"
]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            path,
            marks=[
                *([pytest.mark.long] * (path.stem in LONG)),
                *([pytest.mark.slow] * (path.stem in SLOW)),
            ],
            id=path.stem,
        )
        for path in EXAMPLES
    ],
)
def test_an_example_runs_and_says_something(example, tmp_path, monkeypatch, capsys):
    assert len(example.read_text().splitlines()) <= 45
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")  # in this process: it has imported already
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("page", "code"), REWARDS, ids=lambda value: getattr(value, "stem", "code")
)
def test_a_reward_in_the_documentation_passes_its_probe(page, code):
    from telic.rewards.probe import probe
    from telic.rewards.reward import load_reward

    env = telic.make("HalfCheetah-v5", num_envs=8, seed=0)
    report = probe(load_reward(code), env)
    assert report.mode in ("batched", "vmap", "looped")


TIPS = re.findall(
    r"^\| [✗✓] \| (.+?) \| (\S+) \| (not judged: )?`(.+)` \|$",
    (ROOT / "docs/how-to/write-intents.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("prompt", "robot", "ignored", "reading"), TIPS)
def test_the_composer_reads_the_tips_for_intents_as_shown(prompt, robot, ignored, reading):
    from telic.composer.compose import compose
    from telic.errors import TelicError

    try:
        made = compose(prompt, telic.make(robot, num_envs=1).spec)
    except TelicError as error:
        assert reading in str(error)
    else:
        titles = [each.title for each in made.criteria]
        assert reading in (made.not_understood if ignored else titles)


def test_the_terms_in_the_documentation_can_be_tracked_with():
    from telic.storage.keys import permit
    from telic.tracking.own_terms import load_terms, permission

    (code,) = SNIPPET.findall((ROOT / "docs/explanation/motion-tracking.md").read_text())
    permit(permission(code))
    own = load_terms(code)
    assert [*own.rewards] == ["height", "speed"] and [*own.terminations] == ["drift"]


def written_commands(text):
    """Yield the words of every telic command in code blocks and in code within sentences."""
    blocks = re.findall(r"^```(?:bash|sh)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    for line in [*lines, *re.findall(r"`(telic [^`]*)`", text)]:
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", "X", line)
        for command in re.findall(r"(?:^|[;&|]\s*|-- )telic ([^#;|&]*)", plain.strip()):
            yield line, command.split()


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.stem)
def test_commands_in_the_documentation_exist_with_their_options(page):
    for line, words in written_commands(page.read_text()):
        command = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not (words and hasattr(command, "commands") and words[0].islower()), line
        command.get_params(typer.Context(command))
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        used = {word.strip("[](),.").split("=")[0] for word in words if word[:2] in ("--", "[-")}
        assert used <= known | {"--help", "--json"}, line


def test_the_documentation_has_no_dead_links():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.slow
@pytest.mark.parametrize("book", sorted((ROOT / "examples/notebooks").glob("*.ipynb")), ids=str)
def test_a_notebook_runs_and_its_results_show_themselves(book, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, shown = {}, []
    cells = json.loads(book.read_text())["cells"]
    for cell in (each for each in cells if each["cell_type"] == "code"):
        parsed = ast.parse("".join(cell["source"]))
        last = parsed.body.pop()
        assert isinstance(last, ast.Expr) and cell["outputs"], "every cell ends with a result"
        exec(compile(parsed, book.name, "exec"), scope)
        value = eval(compile(ast.Expression(last.value), book.name, "eval"), scope)
        kept = "".join(cell["outputs"][0]["data"].get("text/html", ""))
        assert bool(kept) == hasattr(value, "_repr_html_")
        if kept:
            shown.append(value._repr_html_())
            for mark in ("data:video/mp4;base64,", "<svg"):
                assert mark in html.unescape(shown[-1]) and mark in html.unescape(kept), mark
    assert shown
