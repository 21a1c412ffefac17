"""Files survive a death at any line, and a full disk loses nothing."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pydantic import BaseModel

from telic.errors import ResourceError, TelicError
from telic.storage import files
from telic.storage.files import (
    TEMPORARY_MARK,
    JsonLines,
    plain,
    read_json,
    read_json_lines,
    read_record,
    remove_unfinished,
    replacing,
    write_json,
    write_text,
)


class Person(BaseModel):
    name: str
    age: int


def test_plain_data_keeps_numbers_and_has_none_for_what_is_not_finite():
    value = {
        "a": np.float32(0.5),
        "b": float("nan"),
        "c": np.array([1, 2]),
        "d": (True, None),
        3: Person(name="x", age=4),
    }
    assert plain(value) == {
        "a": 0.5,
        "b": None,
        "c": [1, 2],
        "d": [True, None],
        "3": {"name": "x", "age": 4},
    }
    with pytest.raises(TypeError, match="object cannot"):
        plain(object())


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "sub" / "a.json"
    write_json(path, {"x": 1})
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("died")
    assert read_json(path) == {"x": 1}
    assert os.listdir(path.parent) == ["a.json"]


def test_a_killed_writer_never_leaves_a_broken_file(tmp_path):
    path = tmp_path / "a.json"
    code = (
        "import sys; from pathlib import Path; from telic.storage.files import write_json\n"
        "n = 0\n"
        "while True:\n"
        "    write_json(Path(sys.argv[1]), {'n': n, 'fill': ['x' * 100] * 500}); n += 1\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not path.exists():
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(read_json(path)["fill"]) == 500
    (tmp_path / f"{files.TEMPORARY_MARK}1-b.json").write_text("left by a killed writer")
    assert remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_record_that_does_not_fit_is_named_with_its_file_and_field(tmp_path):
    path = tmp_path / "p.json"
    write_json(path, Person(name="Ada", age=36))
    assert read_record(path, Person) == Person(name="Ada", age=36)
    write_json(path, {"name": "Ada", "age": "old"})
    with pytest.raises(TelicError, match=r"p\.json is not a Person: at age"):
        read_record(path, Person)
    write_text(path, '{"name": ')
    with pytest.raises(TelicError, match="not valid JSON"):
        read_json(path)
    with pytest.raises(TelicError, match="File not found"):
        read_json(tmp_path / "none.json")


def test_a_torn_last_line_is_not_read_and_is_cut_off_on_reopening(tmp_path):
    path = tmp_path / "log.jsonl"
    with JsonLines(path) as log:
        log.append({"n": 1})
        log.append({"n": 2, "bad": float("inf")})
    with path.open("ab") as file:
        file.write(b'{"n": 3, "text": "' + b"x" * 70_000)
    assert [row["n"] for row in read_json_lines(path)] == [1, 2]
    with JsonLines(path) as log:
        log.append({"n": 4})
    assert list(read_json_lines(path)) == [{"n": 1}, {"n": 2, "bad": None}, {"n": 4}]
    path.write_bytes(b'{"n": 1')
    JsonLines(path).close()
    assert path.read_bytes() == b""


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"n": 1}\nrubbish\n{"n": 3}\n')
    with pytest.raises(TelicError, match="line 2"):
        list(read_json_lines(path))
    assert list(read_json_lines(tmp_path / "none.jsonl")) == []


def test_a_full_disk_says_what_to_free_and_loses_nothing(tmp_path, monkeypatch):
    log_path, json_path = tmp_path / "log.jsonl", tmp_path / "a.json"
    log = JsonLines(log_path)
    log.append({"n": 1})
    write_json(json_path, {"x": 1})
    real_write = os.write

    def write_half(handle, content):
        if len(content) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(handle, content[: len(content) // 2])

    def no_space(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        with pytest.raises(ResourceError, match=r"log\.jsonl could not be written.*videos"):
            log.append({"n": 2})
        patch.setattr(type(json_path), "write_bytes", no_space)
        with pytest.raises(ResourceError, match="run the same command again"):
            write_json(json_path, {"x": 2})
    log.append({"n": 3})
    log.close()
    assert [json.loads(line)["n"] for line in log_path.read_text().splitlines()] == [1, 3]
    assert read_json(json_path) == {"x": 1}
    assert sorted(os.listdir(tmp_path)) == ["a.json", "log.jsonl"]


def test_thousands_of_nested_folders_are_scanned_without_a_crash(tmp_path):
    (tmp_path / f"{TEMPORARY_MARK}1").touch()
    top = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):  # one by one, as no path is that long
        os.mkdir("d", dir_fd=top)
        below = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    try:
        assert [path.parent for path in remove_unfinished(tmp_path)] == [tmp_path]
    finally:
        subprocess.run(["rm", "-r", str(tmp_path / "d")], check=True)
