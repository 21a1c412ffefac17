from xml.etree import ElementTree

import pytest

from telic.training.export.curve import learning_curve

SVG = "{http://www.w3.org/2000/svg}"
TRAIN = {"global_step": [100, 200, 300, 400], "episodic_return": [None, -50.0, 20.0, 90.0]}
EVALUATIONS = [
    {"global_step": 200, "mean_return": 10.0, "interval": [5.0, 15.0]},
    {"global_step": 400, "mean_return": 100.0, "interval": [60.0, 120.0]},
]


def draw(train=TRAIN, evaluations=EVALUATIONS, title="task"):
    picture = learning_curve(train, evaluations, title)
    assert picture is not None
    return ElementTree.fromstring(picture)


def of_class(picture, kind, name):
    return [each for each in picture.iter(SVG + kind) if each.get("class") == name]


def points(line):
    return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]


def scale_of(picture):
    """Pixels per unit and the pixel of zero, read from the axis labels."""
    ticks = {}
    for text in picture.iter(SVG + "text"):
        if text.get("text-anchor") == "end" and text.get("class") is None:
            value = text.text.replace("\N{MINUS SIGN}", "-").replace(",", "")
            ticks[float(value)] = float(text.get("y")) - 4
    (low, bottom), (high, top) = min(ticks.items()), max(ticks.items())
    return (top - bottom) / (high - low), bottom - (top - bottom) / (high - low) * low


def test_points_lie_where_the_axis_says():
    picture = draw()
    slope, zero = scale_of(picture)
    (train,) = of_class(picture, "polyline", "train")
    assert [y for _, y in points(train)] == pytest.approx(
        [zero + slope * value for value in (-50.0, 20.0, 90.0)], abs=0.2
    )
    dots = [float(dot.get("cy")) for dot in of_class(picture, "circle", "dot")[:2]]
    assert dots == pytest.approx([zero + slope * value for value in (10.0, 100.0)], abs=0.2)


def test_whiskers_span_the_interval():
    picture = draw()
    slope, zero = scale_of(picture)
    upright = [
        (float(line.get("y1")), float(line.get("y2")))
        for line in of_class(picture, "line", "whisker")
        if line.get("x1") == line.get("x2")
    ]
    expected = [(zero + slope * low, zero + slope * high) for low, high in ((5, 15), (60, 120))]
    assert [y for pair in upright for y in pair] == pytest.approx(
        [y for pair in expected for y in pair], abs=0.2
    )


def test_the_best_evaluation_is_labelled():
    (label,) = of_class(draw(), "text", "best")
    assert label.text == "100"


def test_steps_run_from_zero_to_the_last_one():
    (train,) = of_class(draw(), "polyline", "train")
    xs = [x for x, _ in points(train)]
    assert xs == sorted(xs)
    assert xs[-1] == float(of_class(draw(), "circle", "dot")[1].get("cx"))


def test_ticks_and_points_stay_inside_the_picture():
    picture = draw()
    lines = [each for kind in ("grid", "axis") for each in of_class(picture, "line", kind)]
    ys = [float(line.get("y1")) for line in lines]
    ys += [
        y
        for kind in ("train", "eval")
        for each in of_class(picture, "polyline", kind)
        for _, y in points(each)
    ]
    assert min(ys) >= 60
    assert max(ys) <= 290


def test_nothing_measured_is_no_picture():
    assert learning_curve({"global_step": [1], "episodic_return": [None]}, [], "x") is None


@pytest.mark.parametrize("value", [0.0, -3.5, 1e7])
def test_a_single_evaluation_without_an_interval_is_drawn(value):
    only = [{"global_step": 10, "mean_return": value, "interval": None}]
    picture = draw({"global_step": [], "episodic_return": []}, only)
    assert len(of_class(picture, "circle", "dot")) == 2  # the point and the legend
    assert not of_class(picture, "line", "whisker")


def test_titles_are_escaped():
    picture = draw(title='a < b & "c"')
    assert of_class(picture, "text", "title")[0].text == 'a < b & "c"'
    assert picture.get("aria-label") == 'a < b & "c"'


def test_a_long_series_stays_small():
    steps = list(range(5000))
    train = {"global_step": steps, "episodic_return": [float(x % 37) for x in steps]}
    (line,) = of_class(draw(train), "polyline", "train")
    assert len(points(line)) == 300
