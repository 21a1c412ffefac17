"""PNG files and words in pictures."""

import numpy as np
import pytest

from telic.rendering.media import draw_caption, draw_text, strip_height, tiled, write_png
from tests.rendering.films import pixels


def test_a_png_holds_the_picture_bit_by_bit(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    path = tmp_path / "p.png"
    write_png(path, picture)
    assert np.array_equal(pixels(path), picture.ravel())
    with pytest.raises(ValueError, match="uint8"):
        write_png(path, picture.astype(float))


def test_pictures_are_tiled_line_by_line_with_white_between():
    pictures = [np.full((2, 3, 3), shade, dtype=np.uint8) for shade in (10, 20, 30)]
    sheet = tiled(pictures, columns=2, gap=1)
    assert sheet.shape == (5, 7, 3)
    assert sheet[..., 0].tolist() == [
        [10, 10, 10, 255, 20, 20, 20],
        [10, 10, 10, 255, 20, 20, 20],
        [255] * 7,
        [30, 30, 30, 255, 255, 255, 255],
        [30, 30, 30, 255, 255, 255, 255],
    ]
    assert tiled(pictures[:1], columns=6, gap=1).shape == (2, 3, 3)


def test_a_caption_darkens_its_strip_and_nothing_else():
    picture = np.full((240, 320, 3), 200, dtype=np.uint8)
    draw_caption(picture, ["1.00 s", "step 20", "return -3.5"])
    top = 240 - strip_height(240)
    assert np.all(picture[:top] == 200)
    strip = picture[top:]
    assert np.median(strip) == 84  # 0.42 of 200
    for third in np.array_split(strip, 3, axis=1):
        assert third.max() > 220, "there should be a word in every third"


def test_text_that_does_not_fit_is_cut_and_strange_letters_become_question_marks():
    picture = np.zeros((20, 30, 3), dtype=np.uint8)
    draw_text(picture, "a long sentence", 5, 3)
    assert picture[:, 25:].any()
    strange, question = np.zeros((2, 20, 30, 3), dtype=np.uint8)
    draw_text(strange, "ß", 2, 0)
    draw_text(question, "?", 2, 0)
    assert np.array_equal(strange, question) and question.any()
