import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

from telic.errors import MissingExtra, TelicError
from telic.training.export import files
from telic.training.export.files import export_policy
from telic.training.export.run_policy import load_numpy

from .conftest import make_policy

POLICIES = {
    "tanh": {},
    "elu": {"activation": "elu", "hidden": (32, 16, 8)},
    "relu": {"activation": "relu", "hidden": (8,)},
    "discrete": {"discrete": True, "outputs": 4},
    "memory": {"memory": 2},
    "hidden memory": {"memory": 2, "hide_memory": True},
}


def observations(policy, rows=50):
    """Observations no export was checked on: ordinary, far outside, and beyond every limit."""
    random = np.random.default_rng(99)
    size = policy.obs_dim + policy.memory_size
    spread = np.repeat([0.5, 5.0, 500.0, 1e20], rows)[:, None]
    return (random.normal(size=(4 * rows, size)) * spread).astype(np.float32)


def given(policy, rows):
    parts = rows[:, : policy.obs_dim], rows[:, policy.obs_dim :]
    return parts if policy.memory_size else parts[:1]


def run_file(path, policy, rows):
    feeds = given(policy, rows)
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path)
        return session.run(["action"], dict(zip(["obs", "memory"], feeds, strict=False)))[0]
    return load_numpy(path)(*feeds)


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
@pytest.mark.parametrize("kind", POLICIES)
def test_an_exported_file_acts_like_the_policy(kind, suffix, tmp_path):
    policy = make_policy(**POLICIES[kind])
    path = export_policy(policy, tmp_path / f"policy{suffix}")
    rows = observations(policy)
    for batch in (rows, rows[:1]):
        expected = policy(*given(policy, batch))
        got = run_file(path, policy, batch)
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= 1e-5


def test_onnx_has_fixed_names_a_free_batch_and_the_facts(tmp_path):
    policy = make_policy(memory=2)
    model = onnx.load(export_policy(policy, tmp_path / "policy.onnx"))
    assert [each.name for each in model.graph.input] == ["obs", "memory"]
    assert [each.name for each in model.graph.output] == ["action"]
    for value in (*model.graph.input, *model.graph.output):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
    assert model.opset_import[0].version == 18
    facts = {each.key: each.value for each in model.metadata_props}
    assert facts["env"] == "Made-v0"
    assert json.loads(facts["obs_names"]) == ["o0", "o1", "o2", "o3", "o4"]
    assert json.loads(facts["action_low"]) == pytest.approx(policy.low.tolist())
    assert json.loads(facts["action_high"]) == pytest.approx(policy.high.tolist())
    named = ("action_names", "dt_s", "env_args", "step", "seed", "telic", "reward")
    assert all(name in facts for name in named)


@pytest.mark.parametrize("suffix", [".onnx", ".npz"])
def test_a_file_that_deviates_is_refused_and_the_old_one_stays(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"policy{suffix}"
    path.write_text("before")
    policy = make_policy()
    kind = files._FORMATS[suffix]

    def write_wrongly(arrays, *rest):
        kind.write(arrays._replace(scale=arrays.scale * 1.01), *rest)

    monkeypatch.setitem(files._FORMATS, suffix, kind._replace(write=write_wrongly))
    with pytest.raises(TelicError, match=r"differ from the policy's by 0\.\d+"):
        export_policy(policy, path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(package, tmp_path, monkeypatch):
    for name in [each for each in sys.modules if each.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package}, .*telic\[export\]"):
        export_policy(make_policy(), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_choice_of_a_discrete_action_is_refused(tmp_path, monkeypatch):
    policy = make_policy(discrete=True, outputs=4)
    kind = files._FORMATS[".npz"]

    def load(path):
        act = kind.load(path)
        return lambda obs: (act(obs) + 1) % 4

    monkeypatch.setitem(files._FORMATS, ".npz", kind._replace(load=load))
    with pytest.raises(TelicError, match="logits"):
        export_policy(policy, tmp_path / "policy.npz")
