"""Reads pages in tests."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Reads a page as a browser would, and checks that elements close in order."""

    VOID = ("meta", "img", "wbr", "br")

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        """Return what a person reads."""
        return " ".join(" ".join(self.words).split())
