"""What anybody may have named is read within bounds."""

import os

import pytest

from telic.errors import BadFile
from telic.storage.reading import files_below


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
    monkeypatch.setattr("telic.storage.reading._MOST_FILES", 5)
    with pytest.raises(BadFile, match="holds more than 5 files"):
        files_below(tmp_path, "*.csv")
