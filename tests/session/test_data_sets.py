"""Data sets of recorded episodes, read back by Minari and as LeRobot reads them."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from telic.errors import UsageError
from telic.session.labels import add_label
from telic.storage.files import read_json
from telic.storage.layout import IterationFolder, MemberFolder, SessionFolder
from telic.storage.trajectories import read_trajectory
from tests.session.quick import PASSING

minari = pytest.importorskip("minari")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow
SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "examples/data_sets/export.py"))


@pytest.fixture
def judged(asking):
    """A session, its best policy, and the judged episodes of that policy."""
    session, _ = asking.run(PASSING, steps=256)
    folder = SessionFolder(session.path)
    label = add_label(folder, True, episode="2")
    iteration = IterationFolder(folder.path / f"iter_{label.iteration}")
    files = sorted((iteration.judged_dir / label.member).glob("episode_*.npz"))
    policy = MemberFolder(iteration.run.path / label.member)
    return folder.path, policy, [read_trajectory(file) for file in files]


@pytest.mark.filterwarnings("ignore")  # of the library
def test_minari_reads_the_episodes_with_scores_and_labels(judged, tmp_path, monkeypatch):
    home, policy, episodes = judged
    made = SCRIPT["write_data"](home, policy, "minari", tmp_path / "data")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    data = minari.load_dataset(made["name"])
    assert data.total_episodes == len(episodes) == made["episodes"]
    for there, here in zip(data, episodes, strict=True):
        assert np.array_equal(there.observations[:-1], here["obs"])
        assert np.array_equal(there.observations[-1], here["next_obs"][-1])
        assert np.array_equal(there.actions, here["action"])
        assert np.allclose(there.rewards, here["env_reward"])
        assert there.terminations[-1] != there.truncations[-1]
    facts = list(data.storage.get_episode_metadata(range(len(episodes))))
    assert [each.get("label") for each in facts] == [None, True, *[None] * (len(episodes) - 2)]
    assert all(0.0 <= each["score"] <= 1.0 for each in facts)
    with pytest.raises(UsageError, match="already exists"):
        SCRIPT["write_data"](home, policy, "minari", tmp_path / "data")


def test_lerobot_finds_every_step_and_frame(judged, tmp_path):
    home, policy, episodes = judged
    out = tmp_path / "data"
    SCRIPT["write_data"](home, policy, "lerobot", out)
    info = read_json(out / "meta/info.json")
    rows = parquet.read_table(out / "data/chunk-000/file-000.parquet").to_pydict()
    table = parquet.read_table(out / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert info["codebase_version"] == "v3.0" and info["total_frames"] == len(rows["index"])
    assert len(table) == len(episodes) and table[1]["telic/label"] is True
    for number, (row, episode) in enumerate(zip(table, episodes, strict=True)):
        own = slice(row["dataset_from_index"], row["dataset_to_index"])
        assert row["length"] == len(episode) and set(rows["episode_index"][own]) == {number}
        assert np.array_equal(rows["observation.state"][own], episode["obs"])
        assert np.allclose(rows["timestamp"][own], np.arange(len(episode)) / info["fps"])
        place = {"video_key": SCRIPT["_CAMERA"], "chunk_index": 0}
        place["file_index"] = row[f"videos/{SCRIPT['_CAMERA']}/file_index"]
        assert (out / info["video_path"].format(**place)).stat().st_size > 1000
    task = parquet.read_table(out / "meta/tasks.parquet").to_pandas()
    assert list(task.index) == [row["tasks"][0] for row in table[:1]]
