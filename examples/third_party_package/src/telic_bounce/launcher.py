"""polite: jobs give way to everything else on the machine."""

from telic.jobs.launcher import LocalJobs


class Polite(LocalJobs):
    """As processes of this machine, with the worker started by `nice`."""

    def __init__(self, place):
        super().__init__()
        self._level = str(place.asks.get("niceness", 19))

    def words(self, folder, attempt):
        """Return the command of a worker."""
        return ("nice", "-n", self._level, *super().words(folder, attempt))
