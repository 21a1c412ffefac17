"""python -m telic."""

from telic.cli.main import main

main()
