import re
from xml.etree import ElementTree

import pytest

from telic.training.export.bundle import learning_curve

SVG = "{http://www.w3.org/2000/svg}"
TRAIN = {"global_step": [100, 200, 300, 400], "episodic_return": [None, -50.0, 20.0, 90.0]}
EVALUATIONS = [
    {"global_step": 200, "mean_return": 10.0, "interval": [5.0, 15.0]},
    {"global_step": 400, "mean_return": 100.0, "interval": [60.0, 120.0]},
]
EVALUATION, TRAINING = "c1", "c2"


def draw(train=TRAIN, evaluations=EVALUATIONS, title="task"):
    picture = learning_curve(train, evaluations, title)
    assert picture is not None
    return ElementTree.fromstring(picture)


def group(picture, colour):
    """The group of one line of the chart; the legend has a group of its own."""
    return next(each for each in picture.iter(SVG + "g") if each.get("class") == colour)


def of_class(picture, kind, name):
    return [each for each in picture.iter(SVG + kind) if name in (each.get("class") or "").split()]


def numbers(path):
    return [float(each) for each in re.findall(r"-?[\d.]+", path)]


def points(picture, colour):
    (line,) = of_class(group(picture, colour), "path", "line")
    values = numbers(line.get("d"))
    return list(zip(values[::2], values[1::2], strict=True))


def dots(picture):
    marks = of_class(group(picture, EVALUATION), "circle", "mark")
    return [(float(each.get("cx")), float(each.get("cy"))) for each in marks]


def scale_of(picture):
    """Pixels per unit and the pixel of zero, read from the axis labels."""
    ticks = {}
    for text in of_class(picture, "text", "end"):
        if text.get("class") == "end":
            value = text.text.replace("\N{MINUS SIGN}", "-").replace(",", "")
            ticks[float(value)] = float(text.get("y")) - 4
    (low, bottom), (high, top) = min(ticks.items()), max(ticks.items())
    return (top - bottom) / (high - low), bottom - (top - bottom) / (high - low) * low


def test_points_lie_where_the_axis_says():
    picture = draw()
    slope, zero = scale_of(picture)
    assert [y for _, y in points(picture, TRAINING)] == pytest.approx(
        [zero + slope * value for value in (-50.0, 20.0, 90.0)], abs=0.2
    )
    assert [y for _, y in dots(picture)] == pytest.approx(
        [zero + slope * value for value in (10.0, 100.0)], abs=0.2
    )


def test_whiskers_span_the_interval():
    picture = draw()
    slope, zero = scale_of(picture)
    whiskers = [numbers(each.get("d"))[1:3] for each in of_class(picture, "path", "whisker")]
    expected = [(zero + slope * low, zero + slope * high) for low, high in ((5, 15), (60, 120))]
    assert [y for pair in whiskers for y in pair] == pytest.approx(
        [y for pair in expected for y in pair], abs=0.2
    )


def test_the_best_evaluation_is_labelled():
    (label,) = of_class(draw(), "text", "peak")
    assert label.text == "100"


def test_steps_run_from_zero_to_the_last_one():
    picture = draw()
    xs = [x for x, _ in points(picture, TRAINING)]
    assert xs == sorted(xs)
    assert xs[-1] == dots(picture)[1][0]
    (first, *_) = [each for each in of_class(picture, "text", "middle") if each.text == "0"]
    assert float(first.get("x")) < xs[0]


def test_ticks_and_points_stay_inside_the_picture():
    picture = draw()
    ys = [float(line.get("y1")) for line in picture.iter(SVG + "line")]
    ys += [y for colour in (EVALUATION, TRAINING) for _, y in points(picture, colour)]
    assert min(ys) >= 60
    assert max(ys) <= 290


def test_nothing_measured_is_no_picture():
    assert learning_curve({"global_step": [1], "episodic_return": [None]}, [], "x") is None


@pytest.mark.parametrize("value", [0.0, -3.5, 1e7])
def test_a_single_evaluation_without_an_interval_is_drawn(value):
    only = [{"global_step": 10, "mean_return": value, "interval": None}]
    picture = draw({"global_step": [], "episodic_return": []}, only)
    assert len(dots(picture)) == 1
    assert not of_class(picture, "path", "whisker")


def test_titles_are_escaped():
    picture = draw(title='a < b & "c"')
    assert of_class(picture, "text", "title")[0].text == 'a < b & "c"'
    assert picture.get("aria-label") == 'a < b & "c"'


def test_a_long_series_stays_small():
    steps = list(range(5000))
    train = {"global_step": steps, "episodic_return": [float(x % 37) for x in steps]}
    assert len(points(draw(train), TRAINING)) == 300


def test_colours_need_no_variables_of_css():
    picture = learning_curve(TRAIN, EVALUATIONS, "x")
    assert "var(" not in picture and "prefers-color-scheme: dark" in picture
