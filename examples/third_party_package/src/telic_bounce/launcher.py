"""Launcher plugin "polite": jobs have lower priority than other processes of the machine."""

from telic.jobs.launcher import LocalJobs


class Polite(LocalJobs):
    """Launch jobs as local processes, with the worker started by `nice`."""

    def __init__(self, place):
        super().__init__()
        self._level = str(place.asks.get("niceness", 19))

    def words(self, spec, folder, attempt):
        """Return the command of a worker."""
        return ("nice", "-n", self._level, *super().words(spec, folder, attempt))
