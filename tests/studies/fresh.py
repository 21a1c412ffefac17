"""A study for tests that change its files behind its back."""

from telic.studies.study import Study


class FreshStudy(Study):
    """Remembers nothing: every question is answered from what is on disk now."""

    def facts(self):
        return {}

    def pinned(self):
        return Study(self.folder, self.ledger).pinned()
