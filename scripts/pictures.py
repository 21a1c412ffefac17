"""Render the pictures of environments and robots that are included in the dashboard.

    python scripts/pictures.py [NAME ...]

Robots are downloaded first. Robots whose license forbids modified copies have no picture here, and
the dashboard renders them on the user's machine after the download.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

from telic.envs.catalogue import catalogue
from telic.rendering import draw_portrait
from telic.robots.catalogue import named_robot, robot_names
from telic.web._start import PICTURES, model_of

SIZE, QUALITY = (320, 240), 82
NO_CHANGED_COPIES = "ND"


def main(asked: list[str]) -> None:
    """Render the given pictures, or all of them."""
    robots = [name for name in robot_names() if NO_CHANGED_COPIES not in named_robot(name).license]
    names = asked or [*(env.id for env in catalogue() if env.fast), *robots]
    PICTURES.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            drawn = Path(place) / "portrait.png"
            draw_portrait(model_of(name), drawn)
            picture = Image.open(drawn).convert("RGB").resize(SIZE, Image.Resampling.LANCZOS)
            picture.save(PICTURES / f"{name}.jpg", quality=QUALITY, optimize=True)
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
