"""The page of results: one file, nothing fetched, nothing of a case taken for markup."""

from telic.bench._report import build_report
from telic.bench.results import CriterionResult
from telic.report.html import render_page
from tests.bench.test_results import found, result
from tests.report.reader import Reader


def page(sums, folder):
    return render_page(build_report(sums, folder), folder)


def addresses(read):
    return [each[name] for _, each in read.elements for name in ("src", "href") if name in each]


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
    outline = Reader(text)
    assert "50%" in outline.text and "9% to 91%" in outline.text  # Wilson of 1 of 2
    assert "2.5 m/s" in outline.text and "<script>alert(1)</script>" in outline.text
    assert addresses(outline) == ["data:video/mp4;base64,ZnJhbWVz"]
    assert "2 of the suite's 5 cases" in outline.text and "c2, c3, c4" in outline.text
    assert "prefers-color-scheme: dark" in text


def test_a_large_video_is_linked(tmp_path):
    (tmp_path / "long.mp4").write_bytes(b"0" * 2_000_000)
    text = page(found(result(0, "passed", video="long.mp4", usd=None)), tmp_path)
    assert addresses(Reader(text)) == ["long.mp4"] and "unknown" in text


def test_a_page_without_results_says_so(tmp_path):
    assert "no case has finished yet" in Reader(page(found(), tmp_path)).text
