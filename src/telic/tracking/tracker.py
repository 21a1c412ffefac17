"""A trained tracker as one file, and its export to ONNX: encoders, control decoder, the whole.

    encoder_<name>.onnx   told (N, k)                -> token (N, width)
    decoder.onnx          token, senses (N, s)       -> action (N, A) in [-1, 1]
    tracker.onnx          rows (N, inputs of policy) -> action, by whoever drives in each row

Normalisation is inside. What is written is run and compared with the tracker; where a number lies
on the edge between two levels, rounding may go either way, and such rows are counted, not compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.core.tensors import integers, numbers
from telic.core.text import file_name
from telic.errors import BadFile, MissingExtra, MissingFile, TelicError
from telic.storage.files import replacing, write_json
from telic.tracking.config import TrackingConfig
from telic.tracking.observations import RowColumns, RowFacts
from telic.tracking.parts import tracked_parts
from telic.tracking.tokens import TokenNetworks
from telic.training.export.files import TOLERANCE, OnnxGraph
from telic.training.loop import DAMAGE
from telic.training.networks import Layer
from telic.training.population import Actor, Population, Scaling

FORMAT = 1


class TrackerFacts(NamedTuple):
    """What a tracker's file says about itself."""

    step: int
    member: str
    seed: int
    row: dict[str, int]
    """what the widths of its inputs follow from"""
    clips: list[str]
    """names of the motions it was trained on"""
    telic: str


class Tracker:
    """A policy that follows motions."""

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
        """Return the most likely actions (N, A) for rows (N, d)."""
        seen = self.actor.scaling.apply(rows.unsqueeze(0))
        return self.networks.act(self.actor.views, self.actor.part(seen))[0].clamp(-1.0, 1.0)

    @torch.no_grad()
    def codes(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the codes (N, width) that every encoder gives rows (N, d)."""
        seen = self.actor.part(self.actor.scaling.apply(rows.unsqueeze(0)))
        quantiser = self.networks.quantiser
        return {
            each.name: quantiser.codes(
                quantiser(self.networks.encode(self.actor.views, seen, each.name))
            )[0]
            for each in self.shape.encoders
        }

    def to(self, device: torch.device | str) -> Tracker:
        """Return the same on a device."""
        flat = self.actor.views.flat()
        scaling = Scaling(*(part.to(device) for part in self.actor.scaling))
        return Tracker(self.config, self.facts, flat.to(device), scaling)


def member_tracker(
    population: Population, member: int, config: TrackingConfig, facts: TrackerFacts
) -> Tracker:
    """Return one member of a population as it is now."""
    scaling = population.actor().scaling
    own = Scaling(*(part[member : member + 1].clone() for part in scaling))
    return Tracker(config, facts, population.flat[member : member + 1].clone(), own)


def save_tracker(path: Path, tracker: Tracker) -> None:
    """Write a tracker in one stroke."""
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
    """Read a tracker; raises MissingFile or BadFile, and runs nothing of what it reads."""
    if not path.is_file():
        raise MissingFile(f"There is no tracker at {path}.", hint="Train one: telic track train")
    try:
        return _read(path)
    except TelicError:
        raise
    except DAMAGE as error:
        raise BadFile(
            f"{path} is no tracker, or is damaged ({type(error).__name__}).",
            hint="Take another one of its run: <member>/checkpoints/tracker_<step>.pt.",
        ) from error


def _read(path: Path) -> Tracker:
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if saved["format"] != FORMAT:
        raise BadFile(
            f"{path} was written by another version (format {saved['format']}).",
            hint="Use the version of telic that wrote it.",
        )
    config = TrackingConfig.model_validate_json(saved["config"])
    facts = TrackerFacts(**saved["facts"])
    parts = [*saved["weights"], *saved["biases"], saved["log_std"]]
    flat = torch.cat([part.reshape(-1).float() for part in parts]).unsqueeze(0)
    scaling = Scaling(*(saved[name].float().view(1, 1, -1) for name in ("shift", "scale")))
    columns = RowColumns(config, RowFacts(**facts.row))
    size = TokenNetworks(columns.token_shape(config)).size
    if flat.shape[1] != size or scaling.shift.shape[-1] != columns.width:
        raise BadFile(f"{path} holds {flat.shape[1]} weights where {size} belong.")
    if not bool(flat.isfinite().all()):
        raise BadFile(f"{path} holds weights that are not finite.")
    return Tracker(config, facts, flat, scaling)


Array = NDArray[Any]
_EDGE = 1e-3
"""how near to the edge between two levels, in levels, rounding may go either way"""
_TRIALS = 256
_WRITING = "Writing a tracker as ONNX"


class ExportedFile(Record):
    """A file that was written and compared with the tracker."""

    name: str
    inputs: dict[str, int] = Field(description="columns by input")
    outputs: dict[str, int] = Field(description="columns by output")
    deviation: float = Field(description="largest difference from the tracker")
    compared: int = Field(description="rows that were compared")
    on_edge: int = Field(description="rows left out, for a number lay between two levels")


class TrackerDeployment(Record):
    """A folder that follows a motion without telic, and how alike it does."""

    folder: str
    clip: str
    steps: int = Field(description="of the motion")
    apart: float = Field(description="largest difference of a position in the first steps")
    joint_rad: float = Field(description="mean error of joints over all steps, as run.py plays")
    joint_rad_here: float = Field(description="the same, as telic simulates it")


class TrackerExport(Record):
    """All files of a tracker."""

    folder: str
    files: tuple[ExportedFile, ...]
    deployment: TrackerDeployment | None = Field(
        default=None, description="the folder that runs without telic; None: none was asked for"
    )
    robot: str | None = Field(
        default=None, description="a model whose actions are tokens; None: none was asked for"
    )


class _Graph(OnnxGraph):
    """Operations of token networks."""

    def layers(self, x: str, layers: Sequence[Layer]) -> str:
        for place, layer in enumerate(layers):
            weight = self.constant(layer.weight[0].numpy())
            x = self.op("Gemm", x, weight, self.constant(layer.bias[0, 0].numpy()))
            if place + 1 < len(layers):
                x = self.op("Mul", x, self.op("Sigmoid", x))
        return x

    def quantised(self, x: str, levels: int) -> str:
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
    """Write all files of a tracker and prove that they act as it does.

    Raises TelicError, and leaves no file, when one deviates by more than 1e-5.
    """
    tracker = tracker.to("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    facts, trials = _facts(tracker), _trials(tracker)
    made = {
        f"encoder_{file_name(each.name)}.onnx": _encoder(tracker, trials, place)
        for place, each in enumerate(tracker.shape.encoders)
    }
    made |= {"decoder.onnx": _decoder(tracker, trials), "tracker.onnx": _whole(tracker, trials)}
    files = tuple(_write(folder / name, each, facts) for name, each in made.items())
    write_json(folder / "tracker.json", {**facts, "files": [f.model_dump() for f in files]})
    return TrackerExport(folder=str(folder), files=files)


class _Trials(NamedTuple):
    """Rows to compare files on, as seen in training, in which every encoder drives in turn."""

    rows: Tensor
    seen: Tensor
    """the same, normalised"""
    tokens: list[Tensor]
    """by encoder"""
    clear: list[Tensor]
    """by encoder, rows in which no number lies on the edge of a level"""


def _trials(tracker: Tracker) -> _Trials:
    scaling, shape, encoders = tracker.actor.scaling, tracker.shape, tracker.shape.encoders
    noise = torch.randn(_TRIALS, shape.inputs, generator=torch.Generator().manual_seed(0))
    rows = scaling.shift[0] + noise / scaling.scale[0]
    drives = torch.arange(_TRIALS) % len(encoders)
    rows[:, slice(*shape.driving)] = torch.nn.functional.one_hot(drives, len(encoders)).float()
    rows[:, slice(*shape.available)] = 1.0
    rows = rows[:, : shape.actor_inputs].contiguous()
    narrow = Scaling(*(part[..., : shape.actor_inputs] for part in scaling))
    seen = narrow.apply(rows.unsqueeze(0))
    nets, views = tracker.networks, tracker.actor.views
    latents = [nets.encode(views, seen, each.name)[0] for each in encoders]
    levels = [nets.quantiser.bound(latent) for latent in latents]
    clear = [((y - y.floor() - 0.5).abs() > _EDGE).all(1) for y in levels]
    return _Trials(rows, seen, [nets.quantiser(latent) for latent in latents], clear)


class _Made(NamedTuple):
    """A graph, what to feed it, and what should come of it."""

    graph: _Graph
    output: tuple[str, str, int]
    """what gives it, its name and its columns"""
    feed: dict[str, Tensor]
    expected: Tensor
    clear: Tensor | None = None
    """(n,) bool, rows that can be compared; None: all"""


def _scales(tracker: Tracker, places: Sequence[int]) -> tuple[Array, Array]:
    scaling, index = tracker.actor.scaling, list(places)
    return scaling.shift[0, 0, index].numpy(), scaling.scale[0, 0, index].numpy()


def _stack(tracker: Tracker, name: str) -> list[Layer]:
    return tracker.networks.layers(tracker.actor.views, name)


def _encoder(tracker: Tracker, trials: _Trials, place: int) -> _Made:
    graph, shape = _Graph(_WRITING), tracker.shape
    own = shape.encoders[place]
    x = graph.normalised("told", *_scales(tracker, own.columns))
    token = graph.quantised(graph.layers(x, _stack(tracker, own.name)), shape.levels)
    feed = {"told": trials.rows[:, list(own.columns)]}
    output = (token, "token", shape.width)
    return _Made(graph, output, feed, trials.tokens[place], trials.clear[place])


def _decoder(tracker: Tracker, trials: _Trials) -> _Made:
    graph, shape, token = _Graph(_WRITING), tracker.shape, trials.tokens[0]
    senses = graph.normalised("senses", *_scales(tracker, range(*shape.senses)))
    x = graph.op("Concat", "token", senses, axis=1)
    action = graph.clipped(graph.layers(x, _stack(tracker, "control")), 1.0)
    felt = trials.seen[..., slice(*shape.senses)]
    wanted = tracker.networks.decode(tracker.actor.views, token.unsqueeze(0), felt)[0]
    feed = {"token": token, "senses": trials.rows[:, slice(*shape.senses)]}
    return _Made(graph, (action, "action", shape.outputs), feed, wanted.clamp(-1.0, 1.0))


def _whole(tracker: Tracker, trials: _Trials) -> _Made:
    graph, shape = _Graph(_WRITING), tracker.shape
    rows = graph.normalised("rows", *_scales(tracker, range(shape.actor_inputs)))
    latent = ""
    for place, each in enumerate(shape.encoders):
        own = graph.layers(graph.columns(rows, each.columns), _stack(tracker, each.name))
        if place:
            drives = graph.columns(rows, [shape.driving[0] + place])
            chosen = graph.op("Greater", drives, graph.constant(np.float32(0.5)))
            own = graph.op("Where", chosen, own, latent)
        latent = own
    token = graph.quantised(latent, shape.levels)
    x = graph.op("Concat", token, graph.columns(rows, range(*shape.senses)), axis=1)
    action = graph.clipped(graph.layers(x, _stack(tracker, "control")), 1.0)
    wanted = tracker.networks.act(tracker.actor.views, trials.seen)[0].clamp(-1.0, 1.0)
    drives = trials.rows[:, slice(*shape.driving)] > 0.5
    clear = (torch.stack(trials.clear, dim=1) | ~drives).all(1)
    return _Made(graph, (action, "action", shape.outputs), {"rows": trials.rows}, wanted, clear)


def _write(path: Path, made: _Made, facts: dict[str, str]) -> ExportedFile:
    _, output, width = made.output
    inputs = {name: rows.shape[1] for name, rows in made.feed.items()}
    clear = np.ones(_TRIALS, bool) if made.clear is None else made.clear.numpy()
    with replacing(path) as temporary:
        about = {**facts, "inputs": json.dumps(inputs)}
        temporary.write_bytes(made.graph.model(inputs, made.output, about))
        off = np.abs(_run(temporary, made.feed) - made.expected.numpy())[clear]
        worst = float(off.max()) if clear.any() else float("nan")
        if not worst <= TOLERANCE:  # so that NaN fails too
            raise TelicError(
                f"{path.name} was not written: it deviates from the tracker by {worst:.2g}, more "
                f"than {TOLERANCE:g}.",
                hint="The tracker itself is intact. Please report this with its file.",
            )
    return ExportedFile(
        name=path.name,
        inputs=inputs,
        outputs={output: width},
        deviation=worst,
        compared=int(clear.sum()),
        on_edge=int((~clear).sum()),
    )


def _run(path: Path, feed: dict[str, Tensor]) -> Array:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("onnxruntime", "export", "Checking a tracker written as ONNX") from None
    runtime: Any = onnxruntime
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {k: v.numpy() for k, v in feed.items()})[0])


def _facts(tracker: Tracker) -> dict[str, str]:
    """Return all that a user of the files must know, as text."""
    config, shape = tracker.config, tracker.shape
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
        "encoders": {e.name: [names[i] for i in e.columns] for e in shape.encoders},
        "senses": names[slice(*shape.senses)],
        "tokens": [shape.tokens, shape.token_dim, shape.levels],
        "units": "metres, radians, seconds; quaternions w first",
    }
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in facts.items()}
