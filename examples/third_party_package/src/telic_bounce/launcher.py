"""polite: runs of a study give way to everything else on the machine."""

from telic.studies.launch.launchers import LocalLauncher


class Polite:
    """As the local launcher, with the program started by `nice`."""

    def __init__(self, options):
        self._local = LocalLauncher()
        self._level = str(options.get("niceness", 19))

    def _polite(self, order):
        return order._replace(argv=("nice", "-n", self._level, *order.argv))

    def render(self, order):
        """Return what would be started."""
        return self._local.render(self._polite(order))

    def start(self, permit, order):
        """Start it; the local launcher spends the permit."""
        return self._local.start(permit, self._polite(order))

    def report(self, nonce, folder):
        """Say whether it is running or ended."""
        return self._local.report(nonce, folder)

    def stop(self, nonce, folder):
        """Ask it to end."""
        self._local.stop(nonce, folder)
