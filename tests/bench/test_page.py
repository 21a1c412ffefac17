"""The page of results: one file, nothing fetched, nothing of a case taken for markup."""

from html.parser import HTMLParser

from telic.bench.report import page
from telic.bench.results import CriterionResult
from tests.bench.test_results import found, result


class Outline(HTMLParser):
    """Collects tags and addresses, and notices what is left open."""

    VOID = ("meta", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.addresses, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_data(self, data):
        self.words += data.replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_says_the_rate_and_shows_every_case(tmp_path):
    video = tmp_path / "cases" / "c0" / "median.mp4"
    video.parent.mkdir(parents=True)
    video.write_bytes(b"frames")
    sums = found(
        result(
            0,
            "passed",
            score=0.93,
            low=0.9,
            video="cases/c0/median.mp4",
            criteria=(CriterionResult(title="goes", credit=1.0, value=2.5, unit="m/s"),),
        ),
        result(1, "refused", reason="<script>alert(1)</script>"),
    )
    text = page(sums, tmp_path)
    outline = Outline(text)
    assert outline.open == []
    assert "50%" in outline.words and "9% to 91%" in outline.words  # Wilson of 1 of 2
    assert "2.5 m/s" in outline.words and "<script>alert(1)</script>" in outline.words
    assert outline.addresses == ["data:video/mp4;base64,ZnJhbWVz"]
    assert "2 of the suite's 5 cases" in outline.words and "c2, c3, c4" in outline.words
    assert "prefers-color-scheme: dark" in text


def test_a_large_video_is_linked(tmp_path):
    (tmp_path / "long.mp4").write_bytes(b"0" * 2_000_000)
    text = page(found(result(0, "passed", video="long.mp4", usd=None)), tmp_path)
    assert Outline(text).addresses == ["long.mp4"] and "unknown" in text


def test_a_page_without_results_says_so(tmp_path):
    assert "no case has come to an end yet" in Outline(page(found(), tmp_path)).words
