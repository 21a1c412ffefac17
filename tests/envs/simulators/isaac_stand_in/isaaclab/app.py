"""Starts the simulator, which everything else of it needs."""

running = []


class AppLauncher:
    def __init__(self, *, headless, device):
        assert headless and device
        self.app = App()
        running.append(self.app)


class App:
    def close(self):
        running.remove(self)
