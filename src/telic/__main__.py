"""python -m telic."""

from telic.cli.entry import main

main()
