"""Saving, loading and ONNX export of trackers: encoders, control decoder and full policy.

    encoder_<name>.onnx   its terms (N, k)           -> token (N, width)
    decoder.onnx          token, senses (N, s)       -> action (N, A) in [-1, 1]
    tracker.onnx          rows (N, inputs of policy) -> action, by the driving encoder of each row

The ONNX graphs include input normalization. Exported files are run and compared with the tracker.
Rows with a value near a rounding edge between two levels are counted but not compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from telic.core.config import Record
from telic.core.tensors import integers, numbers
from telic.core.text import safe_name
from telic.errors import BadFile, MissingExtra, MissingFile, TelicError
from telic.storage.files import replacing, write_json
from telic.tracking._observations import RowColumns, RowFacts
from telic.tracking._parts import tracked_parts
from telic.tracking._tokens import TokenNetworks
from telic.tracking.config import TrackingConfig
from telic.training.export.files import TOLERANCE, OnnxGraph
from telic.training.loop import DAMAGE
from telic.training.networks import Layer
from telic.training.policy import read_tensors
from telic.training.population import Actor, Population, Scaling

FORMAT, EXPORTED = 1, "tracker.json"
"""version of the file, and the list of exported files"""


class TrackerFacts(NamedTuple):
    """Metadata of a tracker file."""

    step: int
    member: str
    seed: int
    row: dict[str, int]
    """sizes that determine the observation widths"""
    clips: list[str]
    """names of the training clips"""
    telic: str


class Tracker:
    """Motion tracking policy."""

    def __init__(
        self,
        config: TrackingConfig,
        facts: TrackerFacts,
        flat: Tensor,
        scaling: Scaling,
    ) -> None:
        self.config, self.facts = config, facts
        self.columns = RowColumns(config, RowFacts(**facts.row))
        self.shape = self.columns.token_shape(config)
        self.networks = TokenNetworks(self.shape, device=flat.device)
        self.actor = Actor(self.networks.views(flat), scaling, self.shape.actor_inputs, None)

    @torch.no_grad()
    def act(self, rows: Tensor) -> Tensor:
        """Return the deterministic actions (N, A) for observations (N, d)."""
        seen = self.actor.scaling.apply(rows.unsqueeze(0))
        return self.networks.act(self.actor.views, self.actor.part(seen))[0].clamp(-1.0, 1.0)

    @torch.no_grad()
    def codes(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the codes (N, width) of every encoder for observations (N, d)."""
        seen = self.actor.part(self.actor.scaling.apply(rows.unsqueeze(0)))
        quantizer = self.networks.quantizer
        return {
            name: quantizer.codes(quantizer(self.networks.encode(self.actor.views, seen, name)))[0]
            for name in self.shape.encoders
        }

    def to(self, device: torch.device | str) -> Tracker:
        """Return a copy on a device."""
        flat = self.actor.views.flat()
        scaling = Scaling(*(part.to(device) for part in self.actor.scaling))
        return Tracker(self.config, self.facts, flat.to(device), scaling)


def member_tracker(
    population: Population, member: int, config: TrackingConfig, facts: TrackerFacts
) -> Tracker:
    """Return the current tracker of a population member."""
    scaling = population.actor().scaling
    own = Scaling(*(part[member : member + 1].clone() for part in scaling))
    return Tracker(config, facts, population.flat[member : member + 1].clone(), own)


def save_tracker(path: Path, tracker: Tracker) -> None:
    """Write a tracker file atomically."""
    tracker = tracker.to("cpu")
    views = tracker.actor.views
    layers = (*views.actor, *views.critic)
    saved = {
        "format": FORMAT,
        "config": tracker.config.model_dump_json(),
        "facts": tracker.facts._asdict(),
        "weights": [layer.weight[0].clone() for layer in layers],
        "biases": [layer.bias[0, 0].clone() for layer in layers],
        "log_std": views.log_std[0].clone(),
        "shift": tracker.actor.scaling.shift[0, 0].clone(),
        "scale": tracker.actor.scaling.scale[0, 0].clone(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        torch.save(saved, temporary)


def load_tracker(path: Path) -> Tracker:
    """Load a tracker without executing pickled code, or raise MissingFile or BadFile."""
    if not path.is_file():
        raise MissingFile(f"No tracker at {path}.", hint="Train one: telic track train")
    try:
        return _read(path)
    except TelicError:
        raise
    except DAMAGE as error:
        raise BadFile(
            f"{path} is not a tracker or is corrupted ({type(error).__name__}).",
            hint="Use another checkpoint of the run: <member>/checkpoints/tracker_<step>.pt.",
        ) from error


def _read(path: Path) -> Tracker:
    saved = read_tensors(path)
    if saved["format"] != FORMAT:
        raise BadFile(
            f"{path} was written by a different version (format {saved['format']}).",
            hint="Use the version of telic that wrote it.",
        )
    config = TrackingConfig.model_validate_json(saved["config"])
    facts = TypeAdapter(TrackerFacts).validate_python(saved["facts"])
    parts = [*saved["weights"], *saved["biases"], saved["log_std"]]
    flat = torch.cat([part.reshape(-1).float() for part in parts]).unsqueeze(0)
    scaling = Scaling(*(saved[name].float().view(1, 1, -1) for name in ("shift", "scale")))
    columns = RowColumns(config, RowFacts(**facts.row))
    size = TokenNetworks(columns.token_shape(config)).size
    if flat.shape[1] != size or {part.shape[-1] for part in scaling} != {columns.width}:
        raise BadFile(f"{path} has {flat.shape[1]} weights instead of {size}.")
    if not all(bool(part.isfinite().all()) for part in (flat, *scaling)):
        raise BadFile(f"{path} contains numbers that are not finite.")
    return Tracker(config, facts, flat, scaling)


Feed = dict[str, Tensor]
_EDGE = 1e-3
"""distance to a rounding edge, in levels, within which rows are not compared"""
_TRIALS = 256


class ExportedFile(Record):
    """Exported file with its comparison to the tracker."""

    name: str
    inputs: dict[str, int] = Field(description="number of columns per input")
    outputs: dict[str, int] = Field(description="number of columns per output")
    deviation: float = Field(description="largest deviation from the tracker")
    compared: int = Field(description="number of rows compared")
    on_edge: int = Field(description="rows ignored because a value was near a rounding edge")


class TrackerDeployment(Record):
    """Standalone deployment folder, with its deviation from the simulation in telic."""

    folder: str
    clip: str
    steps: int = Field(description="number of control steps of the motion")
    apart: float = Field(description="largest position deviation in the first steps")
    joint_rad: float = Field(description="mean joint error of run.py over all steps")
    joint_rad_here: float = Field(description="mean joint error in telic's simulation")


class TrackerExport(Record):
    """Files of an exported tracker."""

    folder: str
    files: tuple[ExportedFile, ...]
    deployment: TrackerDeployment | None = Field(
        default=None, description="standalone deployment folder, or None if not requested"
    )
    robot: str | None = Field(
        default=None, description="model with tokens as actions, or None if not requested"
    )


class _Graph(OnnxGraph):
    """ONNX graph with the operations of token networks."""

    def layers(self, x: str, layers: Sequence[Layer]) -> str:
        for place, layer in enumerate(layers):
            weight = self.constant(layer.weight[0].numpy())
            x = self.op("Gemm", x, weight, self.constant(layer.bias[0, 0].numpy()))
            if place + 1 < len(layers):
                x = self.op("Mul", x, self.op("Sigmoid", x))
        return x

    def quantized(self, x: str, levels: int) -> str:
        half = (levels - 1) * (1.0 + 1e-3) / 2.0
        offset = 0.5 if levels % 2 == 0 else 0.0
        x = self.op("Tanh", self.op("Add", x, self.constant(np.float32(np.arctanh(offset / half)))))
        x = self.op("Mul", x, self.constant(np.float32(half)))
        x = self.op("Round", self.op("Sub", x, self.constant(np.float32(offset))))
        return self.op("Div", x, self.constant(np.float32(levels // 2)))

    def columns(self, x: str, places: Sequence[int]) -> str:
        return self.op("Gather", x, self.constant(np.array(places, dtype=np.int64)), axis=1)


@torch.no_grad()
def export_tracker(tracker: Tracker, folder: Path) -> TrackerExport:
    """Export a tracker to ONNX and compare each file with the tracker.

    Raises TelicError, without writing the file, if an output deviates by more than 1e-5.
    """
    tracker, facts = tracker.to("cpu"), _facts(tracker)
    write_json(folder / EXPORTED, {**facts, "files": []})  # first: it marks the folder
    shape, networks, views = tracker.shape, tracker.networks, tracker.actor.views
    scaling, encoders = tracker.actor.scaling, shape.encoders
    senses, levels = range(*shape.spans["senses"]), shape.networks.levels
    # Random test rows with the statistics of training, in which encoders take turns driving.
    noise = torch.randn(_TRIALS, shape.inputs, generator=torch.Generator().manual_seed(0))
    rows = scaling.shift[0] + noise / scaling.scale[0]
    drives = torch.nn.functional.one_hot(torch.arange(_TRIALS) % len(encoders), len(encoders))
    rows[:, shape.columns("driving")] = drives.float()
    rows[:, shape.columns("available")] = 1.0
    rows = rows[:, : shape.actor_inputs].contiguous()
    seen = Scaling(*(part[..., : shape.actor_inputs] for part in scaling)).apply(rows.unsqueeze(0))
    latents = [networks.encode(views, seen, name)[0] for name in encoders]
    tokens = [networks.quantizer(latent) for latent in latents]
    bounds = [networks.quantizer.bound(latent) for latent in latents]
    clear = torch.stack([((y - y.floor() - 0.5).abs() > _EDGE).all(1) for y in bounds], dim=1)
    files: list[ExportedFile] = []

    def begin(name: str, places: Sequence[int]) -> tuple[_Graph, str]:
        graph, index = _Graph("Exporting a tracker to ONNX"), list(places)
        shift, scale = (part[0, 0, index].numpy() for part in scaling)
        return graph, graph.normalized(name, shift, scale)

    def control(graph: _Graph, token: str, felt: str) -> str:
        x = graph.op("Concat", token, felt, axis=1)
        return graph.clipped(graph.layers(x, networks.layers(views, "control")), 1.0)

    def write(
        name: str, graph: _Graph, output: str, what: str, feed: Feed, wanted: Tensor, kept: Tensor
    ) -> None:
        inputs = {key: given.shape[1] for key, given in feed.items()}
        with replacing(folder / name) as temporary:
            about = {**facts, "inputs": json.dumps(inputs)}
            result = output, what, wanted.shape[1]
            temporary.write_bytes(graph.model(inputs, result, about))
            off = np.abs(_run(temporary, feed) - wanted.numpy())[kept.numpy()]
            worst = float(off.max()) if len(off) else float("nan")
            if not worst <= TOLERANCE:  # so that NaN fails too
                raise TelicError(
                    f"{name} was not written: it differs by {worst:.2g} from the tracker, above "
                    f"{TOLERANCE:g}.",
                    hint="The tracker itself is intact. Please report this and attach the file.",
                )
        compared = int(kept.sum())
        files.append(
            ExportedFile(
                name=name,
                inputs=inputs,
                outputs={what: wanted.shape[1]},
                deviation=worst,
                compared=compared,
                on_edge=_TRIALS - compared,
            )
        )

    for place, (name, columns) in enumerate(encoders.items()):
        graph, x = begin("told", columns)  # language: quoted
        token = graph.quantized(graph.layers(x, networks.layers(views, name)), levels)
        feed = {"told": rows[:, list(columns)]}  # language: quoted
        file = f"encoder_{safe_name(name)}.onnx"
        write(file, graph, token, "token", feed, tokens[place], clear[:, place])

    graph, felt = begin("senses", senses)
    wanted = networks.decode(views, tokens[0].unsqueeze(0), seen[..., shape.columns("senses")])[0]
    feed = {"token": tokens[0], "senses": rows[:, shape.columns("senses")]}
    action, everything = control(graph, "token", felt), torch.ones(_TRIALS, dtype=torch.bool)
    write("decoder.onnx", graph, action, "action", feed, wanted.clamp(-1.0, 1.0), everything)

    graph, x = begin("rows", range(shape.actor_inputs))
    latent = ""
    for place, (name, columns) in enumerate(encoders.items()):
        own = graph.layers(graph.columns(x, columns), networks.layers(views, name))
        if place:
            driven = graph.columns(x, [shape.spans["driving"][0] + place])
            chosen = graph.op("Greater", driven, graph.constant(np.float32(0.5)))
            own = graph.op("Where", chosen, own, latent)
        latent = own
    action = control(graph, graph.quantized(latent, levels), graph.columns(x, senses))
    wanted = networks.act(views, seen)[0].clamp(-1.0, 1.0)
    kept = (clear | ~drives.bool()).all(1)
    write("tracker.onnx", graph, action, "action", {"rows": rows}, wanted, kept)
    write_json(folder / EXPORTED, {**facts, "files": [f.model_dump() for f in files]})
    return TrackerExport(folder=str(folder), files=tuple(files))


def _run(path: Path, feed: Feed) -> np.ndarray:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("onnxruntime", "export", "Verifying an ONNX tracker") from None
    runtime: Any = onnxruntime
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {k: v.numpy() for k, v in feed.items()})[0])


def _facts(tracker: Tracker) -> dict[str, str]:
    """Return the metadata of the exported files as strings."""
    config, shape, nets = tracker.config, tracker.shape, tracker.config.networks
    parts = tracked_parts(config.robot)
    robot, motors = parts.robot, parts.robot.facts.motors or ()
    names = tracker.columns.names()
    reach = parts.action_size * config.robot.action_limit
    facts: dict[str, Any] = {
        "telic": tracker.facts.telic,
        "step": tracker.facts.step,
        "robot": robot.name,
        "joint_names": robot.joint_names,
        "action_joints": [robot.joint_names[i] for i in integers(parts.action_joints)],
        "default_pose_rad": robot.home.joint_pos.tolist(),
        "action_reach_rad": numbers(reach),
        "action_base": config.robot.action_base,
        "stiffness": [motor.gain for motor in motors],
        "damping": [-motor.bias[2] for motor in motors],
        "control_s": config.robot.control_s,
        "row_names": names[: shape.actor_inputs],
        "encoders": {k: [names[i] for i in own] for k, own in shape.encoders.items()},
        "senses": names[shape.columns("senses")],
        "tokens": [nets.tokens, nets.token_dim, nets.levels],
        "units": "meters, radians, seconds; quaternions w first",
    }
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in facts.items()}
