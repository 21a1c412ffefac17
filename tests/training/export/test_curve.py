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


def dots(picture):
    marks = of_class(group(picture, EVALUATION), "circle", "mark")
    return [(float(each.get("cx")), float(each.get("cy"))) for each in marks]


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
