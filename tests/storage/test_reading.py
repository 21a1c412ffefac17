"""Files that users name are read within bounds."""

import json
import os
import random

import pytest

from telic.errors import BadFile
from telic.storage.files import open_append
from telic.storage.reading import files_below, is_plain, log_end, parse_json


def test_files_below_a_folder_are_found_in_order_and_a_whole_disk_is_not_searched(
    tmp_path, monkeypatch
):
    for name in ("b/two.csv", "a/one.csv", "a/other.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "c").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    found = files_below(tmp_path, "*.csv")
    assert [str(each.relative_to(tmp_path)) for each in found] == ["a/one.csv", "b/two.csv"]
    monkeypatch.setattr("telic.storage.reading._MAX_FILES", 5)
    with pytest.raises(BadFile, match="contains more than 5 files"):
        files_below(tmp_path, "*.csv")


def test_a_log_is_not_read_through_a_link_and_a_pipe_does_not_block(tmp_path):
    log, secret = tmp_path / "log", tmp_path / "secret"
    secret.write_text("mine")
    assert log_end(secret) == "mine"
    for plant in (lambda: log.symlink_to(secret), lambda: os.mkfifo(log), log.mkdir):
        plant()
        with pytest.raises(BadFile):
            log_end(log)
        log.rmdir() if log.is_dir() else log.unlink()


def test_appending_follows_no_link_and_waits_for_no_pipe(tmp_path):
    log, secret = tmp_path / "log", tmp_path / "secret"
    with open_append(log) as file:
        file.write(b"one")
    log.unlink()
    for plant in (lambda: log.symlink_to(secret), lambda: os.mkfifo(log)):
        plant()
        with pytest.raises(OSError):
            open_append(log)
        log.unlink()
    assert not secret.exists()


PIECES = (
    *(
        "1",
        "-",
        "0.000000000000000000012",
        "1234567890123456789",
        "1" * 18,
        "1" * 25,
        "e12",
        "E+999",
    ),
    *("e308", "1e-999", "[", "]", ",", " ", "\n", "\t", ":", "{", "}", '"', "a", "7e123", ".5"),
    *("\\ud800", "\\u0000", "\\u00e9"),
)


def test_no_number_and_no_character_slips_through_that_nothing_can_hold():
    luck, refused, read = random.Random(5), 0, 0
    for _ in range(6000):
        text = "".join(luck.choices(PIECES, k=luck.randint(1, 6)))
        try:
            value = json.loads(text, parse_constant=lambda _: None)
        except ValueError:
            continue
        if is_plain(value):
            read += 1
            assert parse_json(text, "it") == value
        else:
            refused += 1
            with pytest.raises(BadFile):
                parse_json(text, "it")
    assert refused > 50 and read > 200
