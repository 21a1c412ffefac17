"""A study for tests that change its files behind its back."""

from telic.studies.study import Study


class FreshStudy(Study):
    """Remembers nothing: every question is answered from what is on disk now."""

    def __getattribute__(self, name):
        if name not in ("folder", "ledger", "refresh") and not name.startswith("__"):
            super().__getattribute__("refresh")()
        return super().__getattribute__(name)
