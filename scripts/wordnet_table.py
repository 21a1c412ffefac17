"""Extract verbs of motion from WordNet 3.0 as rows of the composer's lexicon.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python scripts/wordnet_table.py wordnet/usr/share/wordnet

A verb is included if its first sense is a kind of motion below a verb that the composer knows. The
definition determines the speed. Verbs without such a hypernym (dance, explode) are omitted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from telic.composer.lexicon import TABLES, vocabulary

MOTION = "38"
KNOWN = {
    "walk": ("go", "walk"), "run": ("go", "run"), "crawl": ("go", "crawl"), "trot": ("go", "trot"),
    "gallop": ("go", "gallop"), "swim": ("go", "swim"), "jump": ("jump", ""), "leap": ("jump", ""),
    "hop": ("hop", ""), "spin": ("turn", ""), "whirl": ("turn", ""), "crouch": ("sit", ""),
    "march": ("go", "march"), "jog": ("go", "jog"), "sprint": ("go", "sprint"),
}  # fmt: skip
NOUNS = "mouse hare hoof keel puddle reel backpack troop stamp lumber hurdle rebound carom snorkel"
SLOW = (
    r"slow|leisure|unhurried|casual|idle|idly|heavy|heavily|effort|dragging|tired|caution|stealth"
)
FAST = r"fast|quick|hurr|rapid|swift|brisk|high speed|great speed"


def main(folder: Path) -> None:
    """Write `tables/wordnet.toml`."""
    synsets: dict[str, tuple[list[str], list[str], str]] = {}
    for line in (folder / "data.verb").read_text(encoding="ascii").splitlines():
        if line.startswith(" ") or line.split()[1] != MOTION:
            continue
        facts, _, gloss = line.partition(" | ")
        count = int(facts.split()[3], 16)
        words = [word.lower() for word in facts.split()[4 : 4 + 2 * count : 2]]
        above = re.findall(r"@ (\d{8}) v", facts)
        synsets[line.split()[0]] = (words, above, gloss.partition(";")[0])
    first = {}
    for line in (folder / "index.verb").read_text(encoding="ascii").splitlines():
        if not line.startswith(" "):
            first[line.split()[0]] = next(p for p in line.split() if re.fullmatch(r"\d{8}", p))
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for number, (words, above, gloss) in synsets.items():
        chain = [number, *above, *(b for a in above if a in synsets for b in synsets[a][1])]
        named = [(each, a) for a in chain if a in synsets for each in synsets[a][0]]
        verb = next((each for each, a in named if each in KNOWN and first[each] == a), None)
        new = [w for w in words if w.isalpha() and w not in vocabulary() and first[w] == number]
        new = [word for word in new if word not in NOUNS.split()]
        if verb is None or not new:
            continue
        degree = "slow" if re.search(SLOW, gloss) else "fast" if re.search(FAST, gloss) else ""
        rows.setdefault((*KNOWN[verb], degree, verb), []).extend(new)
    lines = [
        "# Verbs of motion from WordNet 3.0 (Princeton University), each read as a",
        "# verb of verbs.toml and how fast. Written by scripts/wordnet_table.py.",
    ]
    manner = {"slow": " slowly", "fast": " fast", "": ""}
    for (act, gait, degree, verb), words in sorted(rows.items()):
        lines += ["", f"[[{act}]]", f"words = {sorted({*words})}".replace("'", '"')]
        lines += [f'gait = "{gait}"'] if gait else []
        lines += [f'degree = "{degree}"', 'dimension = "speed"'] if degree and act == "go" else []
        lines.append(f'read_as = "{verb}{manner[degree] if act == "go" else ""}"')
        lines += [] if degree else [f'judged_as = "{verb}"']  # it says more than is judged
    (TABLES / "wordnet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
