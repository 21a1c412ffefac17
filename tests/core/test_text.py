"""Text from users as parts of names, tables and messages."""

import random
from pathlib import PurePosixPath

from telic.core.text import safe_name


def test_no_name_leads_anywhere():
    chance = random.Random(1)
    for _ in range(2000):
        assert_leads_nowhere("".join(chance.choices("./\\~:\0\n aä0-_", k=chance.randrange(200))))


def assert_leads_nowhere(name):
    made = PurePosixPath("folder") / f"{safe_name(name)}"
    assert len(made.parts) == 2 and ".." not in made.parts and not set(made.name) & set("\0\n\\:")


def test_an_ordinary_name_stays():
    assert safe_name("walk-0-0000_robot.v2") == "walk-0-0000_robot.v2"
