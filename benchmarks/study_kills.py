"""Kill a study's launch loop at random moments, and count the resulting faults.

    python benchmarks/study_kills.py 200 [SEED]

The trials are those of tests/studies/launch/kills.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.studies.launch.kills import run_trials


def main() -> int:
    """Run the trials, and print the results."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="telic-kills-") as home:
        found = run_trials(count, seed, Path(home))
    print(
        f"{found['trials']} trials over {found['studies']} studies in "
        f"{time.monotonic() - began:.0f} s"
    )
    print("the last event before the kill:")
    for name, times in sorted(found["killed_after"].items()):
        print(f"  {name:<18} {times}")
    print("runs:")
    for name, times in sorted(found["runs"].items()):
        print(f"  {name:<18} {times}")
    print(f"driver errors: {found['driver_errors']}")
    print(f"faults: {len(found['faults'])}")
    for each in found["faults"]:
        print(f"  {each}")
    return 1 if found["faults"] or found["driver_errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
