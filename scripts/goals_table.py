"""Write the table of goals in docs/reference/composer.md: the numbers behind words, by robot.

    python scripts/goals_table.py            write the table
    python scripts/goals_table.py --print    print it instead

tests/composer/test_sizes.py fails if the table is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from telic.composer._gaits import gait_meant
from telic.composer._sizes import jump_height, speed
from telic.composer.reader import parse
from telic.composer.scene import Scene
from telic.envs.catalogue import describe
from telic.errors import BadEnvironment

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "composer.md"
BEGIN, END = "<!-- goals: python scripts/goals_table.py -->", "<!-- end of goals -->"
ROBOTS = ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid", "Swimmer")
GOING = (
    "crawl",
    "walk slowly",
    "walk",
    "walk fast",
    "trot",
    "jog",
    "run",
    "run fast",
    "sprint",
    "run as fast as possible",
)
JUMPING = ("jump", "jump high", "jump as high as possible")


def table() -> str:
    """Return the table as Markdown."""
    scenes = [Scene.of(describe(f"{name}-v5")) for name in ROBOTS]
    rows = [f"|prompt|{'|'.join(ROBOTS)}|", f"|---|{'--:|' * len(ROBOTS)}"]
    legs = [f"{scene.leg:.2f}" if scene.leg else "–" for scene in scenes]
    rows.append(f"|*leg length*|{'|'.join(legs)}|")
    for said, shown in ((GOING, _speed), (JUMPING, _height)):
        rows += [f"|{words}|{'|'.join(shown(words, each) for each in scenes)}|" for words in said]
    return "\n".join(rows)


def _speed(words: str, scene: Scene) -> str:
    frame = parse(words, scene.spec).frames[0]
    try:
        gait_meant(frame, scene)
    except BadEnvironment:
        return "–"
    return _shown(speed(frame, scene).value, speed(frame, scene).best)


def _height(words: str, scene: Scene) -> str:
    if not scene.has("height"):
        return "–"
    goal = jump_height(parse(words, scene.spec).frames[0], scene)
    return _shown(goal.value, goal.best)


def _shown(value: float, best: float | None) -> str:
    return f"{value:.2f}" + (f" ({best:.2g})" if best is not None else "")


def page(text: str) -> str:
    """Return the page with the current table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(table())
    else:
        PAGE.write_text(page(PAGE.read_text()))
