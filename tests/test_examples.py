"""Every example and every snippet of the documentation runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
REWARDS = [
    (page, code)
    for page in PAGES
    for code in SNIPPET.findall(page.read_text())
    if re.search(r"^(class|def) ", code, re.MULTILINE)
]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_something(example, tmp_path):
    assert len(example.read_text().splitlines()) <= 45
    done = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize(
    ("page", "code"), REWARDS, ids=lambda value: getattr(value, "stem", "code")
)
def test_a_reward_in_the_documentation_passes_its_probe(page, code):
    import telic
    from telic.rewards.load import load_reward
    from telic.rewards.probe import probe

    env = telic.make("HalfCheetah-v5", num_envs=8, seed=0)
    report = probe(load_reward(code), env)
    assert report.mode in ("batched", "lifted", "looped")


def test_the_documentation_has_no_dead_links():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
