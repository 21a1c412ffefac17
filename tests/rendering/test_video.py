"""Videos that browsers play, PNG files and captions."""

import numpy as np
import pytest

from telic.errors import ResourceError, TelicError
from telic.rendering import media
from telic.rendering.media import (
    draw_caption,
    strip_height,
    write_png,
    write_video,
)
from tests.rendering.videos import pixels, read_frames, read_video_facts


def gradient(count, height=48, width=64):
    for i in range(count):
        frame = np.zeros((height, width, 3), dtype=np.uint8)
        frame[..., 0] = 200
        frame[..., 2] = 5 * i
        yield frame


def test_a_video_is_what_browsers_play_at_the_speed_asked_for(tmp_path):
    path = tmp_path / "deep" / "v.mp4"
    assert write_video(path, gradient(25), fps=12.5) == 25
    facts = read_video_facts(path)
    assert (facts.codec, facts.pixel_format) == ("h264", "yuv420p")
    assert (facts.width, facts.height, facts.fps) == (64, 48, 12.5)
    assert facts.duration_s == pytest.approx(2.0, abs=0.02)
    frames = read_frames(path)
    assert frames.shape == (25, 48, 64, 3)
    # first and last frame are the colors we wrote, within what the codec loses
    assert np.abs(frames[0].mean((0, 1)) - (200, 0, 0)).max() < 8
    assert np.abs(frames[-1].mean((0, 1)) - (200, 0, 120)).max() < 8
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat"), "a browser must wait for the end"


def test_odd_sizes_are_padded_to_even_ones(tmp_path):
    path = tmp_path / "v.mp4"
    write_video(path, gradient(3, height=33, width=47), fps=10)
    facts = read_video_facts(path)
    assert (facts.width, facts.height) == (48, 34)


def test_a_failed_video_leaves_the_old_one(tmp_path):
    path = tmp_path / "v.mp4"
    write_video(path, gradient(3), fps=10)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="frame 2 is"):
        write_video(path, [*gradient(2), np.zeros((10, 10, 3), np.uint8)], fps=10)
    with pytest.raises(TelicError, match="the video has no frames"):
        write_video(path, [], fps=10)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["v.mp4"]


def test_ffmpegs_last_words_are_in_the_error(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    monkeypatch.setattr(media, "ffmpeg_path", lambda: str(program))
    for says, error, words in (
        ("Unknown encoder", TelicError, "ffmpeg: Unknown encoder"),
        ("av_write: No space left on device", ResourceError, "disk is full"),
    ):
        program.write_text(f"#!/bin/sh\necho '{says}' >&2; exit 1\n")
        program.chmod(0o755)
        with pytest.raises(error, match=words):
            write_video(tmp_path / "v.mp4", gradient(40, 480, 640), fps=10)
    assert list(tmp_path.iterdir()) == [program]


def test_a_png_holds_the_picture_bit_by_bit(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    write_png(tmp_path / "p.png", picture)
    assert np.array_equal(pixels(tmp_path / "p.png"), picture.ravel())


def test_a_caption_darkens_its_strip_and_nothing_else():
    picture = np.full((240, 320, 3), 200, dtype=np.uint8)
    draw_caption(picture, ["1.00 s", "step 20", "return -3.5"])
    top = 240 - strip_height(240)
    assert np.all(picture[:top] == 200)
    assert np.median(picture[top:]) == 84  # 0.42 of 200
    for third in np.array_split(picture[top:], 3, axis=1):
        assert third.max() > 200, "there should be a word in every third"
