"""Add sessions to the gallery of the documentation.

    python scripts/gallery.py SESSION_FOLDER [...]

For every session that passed, this writes an animated picture of the median episode to
docs/images/gallery and a row to docs/results/gallery.json, from which scripts/results.py fills the
page. A row of the same prompt and robot is replaced.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
from PIL import Image

from telic.authors.request import SessionConfig

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "results" / "gallery.json"
PICTURES = ROOT / "docs" / "images" / "gallery"
WIDTH, SECONDS, FPS, LARGEST = 320, 5.0, 10, 300_000


def main() -> None:
    """Add the sessions named on the command line."""
    data = json.loads(DATA.read_text())
    for argument in sys.argv[1:]:
        row = described(Path(argument))
        others = [each for each in data["rows"] if each["command"] != row["command"]]
        data["rows"] = [*others, row]
    DATA.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def described(session: Path) -> dict[str, Any]:
    """Return the row of a session, and write its picture."""
    summary, config = _read(session / "summary.json"), _read(session / "session.json")
    if summary["outcome"] != "passed":
        sys.exit(f"{session} did not pass: {summary['outcome']}")
    member = session / f"iter_{summary['best_iteration']}" / "train" / summary["best_member"]
    spec, manifest = _read(member / "reward_spec.json"), _read(member.parent / "manifest.json")
    robot = summary["env"]
    defaults = {name: field.default for name, field in SessionConfig.model_fields.items()}
    options = [
        f"--{name.replace('_', '-')} {config[name]}"
        for name in ("device", "motion", "iterations", "first_rewards", "steps")
        if config[name] != defaults[name]
    ]
    return {
        "prompt": summary["intent"],
        "robot": robot,
        "picture": picture(session / "report" / "median.mp4", f"{robot} {summary['intent']}"),
        "reward": "; ".join(f"{x['weight']:g} × {x['description']}" for x in spec["terms"]),
        "command": " ".join(["telic run", f'"{summary["intent"]}"', "--env", robot, *options]),
        **{name: summary[name] for name in ("score", "low", "passing", "episodes", "seconds")},
        "rewards": summary["iterations"],
        "steps": summary["steps"],
        "date": session.name.split("_")[1],
        "commit": manifest.get("commit"),
    }


def picture(video: Path, name: str) -> str:
    """Write an animated picture of a video, and return its file name."""
    fps = imageio.immeta(video)["fps"]
    every = max(1, round(fps / FPS))
    frames = [
        Image.fromarray(frame).resize((WIDTH, WIDTH * frame.shape[0] // frame.shape[1]))
        for frame in islice(imageio.imiter(video), 0, round(SECONDS * fps), every)
    ]
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', name.lower())}.webp"
    for quality in (60, 40, 25, 10):
        pause = round(1000 * every / fps)
        frames[0].save(
            path, save_all=True, append_images=frames[1:], duration=pause, loop=0, quality=quality
        )
        if path.stat().st_size <= LARGEST:
            return path.name
    sys.exit(f"{path} is larger than {LARGEST} bytes")


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


if __name__ == "__main__":
    main()
