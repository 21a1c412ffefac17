"""PNG files and words in pictures."""

import numpy as np
import pytest

from telic.rendering.media import draw_caption, strip_height, write_png
from tests.rendering.films import pixels


def test_a_png_holds_the_picture_bit_by_bit(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    path = tmp_path / "p.png"
    write_png(path, picture)
    assert np.array_equal(pixels(path), picture.ravel())
    with pytest.raises(ValueError, match="uint8"):
        write_png(path, picture.astype(float))


def test_a_caption_darkens_its_strip_and_nothing_else():
    picture = np.full((240, 320, 3), 200, dtype=np.uint8)
    draw_caption(picture, ["1.00 s", "step 20", "return -3.5"])
    top = 240 - strip_height(240)
    assert np.all(picture[:top] == 200)
    strip = picture[top:]
    assert np.median(strip) == 84  # 0.42 of 200
    for third in np.array_split(strip, 3, axis=1):
        assert third.max() > 220, "there should be a word in every third"
