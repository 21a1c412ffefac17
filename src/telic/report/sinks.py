"""Send metrics, videos and verdicts to experiment trackers, e.g. `--log wandb,tensorboard`.

A sink is created for each run, session, search or tracking run. Other packages provide sinks as
functions of a name, a folder and the request in the entry point group `telic.sinks`. If a sink
fails, its error is reported, and the work continues without it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

from telic.core.config import dotted
from telic.core.events import (
    Event,
    LogMessage,
    SearchIterationEnd,
    SearchStart,
    SessionIterationStart,
    SessionStart,
    TrainProgress,
    TrainStart,
)
from telic.core.plugins import load_plugin, plugin_names
from telic.core.request import PlacedRequest, fields_of
from telic.core.verb import as_data
from telic.errors import MissingExtra, UnknownName
from telic.storage.files import plain
from telic.storage.layout import MemberFolder
from telic.storage.scalars import is_evaluation, read_rows

Asked = TypeVar("Asked", bound=PlacedRequest)
Result = TypeVar("Result")
_EVERY_S = 2.0
_NOT_METRICS = ("global_step", "iteration", "number", "step", "run", "episodes")
_GROUPS = {
    "return": ("episodic_return",),
    "reward_terms": ("reward_term",),
    "loss": ("policy_loss", "value_loss", "entropy", "loss"),
    "ppo": ("approx_kl", "clip_fraction", "explained_variance", "learning_rate", "policy_std"),
    "health": ("grad_norm", "kl_"),
    "episodes": ("episode",),
    "throughput": ("sps", "steps_per_second", "elapsed", "rollout_time", "train_time"),
}


class Sink(Protocol):
    """Connection to an experiment tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log finite metrics at an environment step, or at an episode of a search."""

    def finish(self, result: Mapping[str, Any], videos: Sequence[Path]) -> None:
        """Log the result, which is flat and empty after an error, and close the connection."""


class _TensorBoard:
    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for earlier in folder.glob("tb_logs/events.out.tfevents.*"):
            earlier.unlink()  # a resumed run sends all rows again
        self._writer = SummaryWriter(str(folder / "tb_logs"))
        self._table("config", config)

    def _table(self, title: str, values: Mapping[str, Any]) -> None:
        self._writer.add_text(title, "\n".join(f"    {name}: {values[name]}" for name in values))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self, result: Mapping[str, Any], videos: Sequence[Path]) -> None:
        self._table("result", {**result, "videos": [str(video) for video in videos]})
        self._writer.close()


class _Wandb:
    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb  # pyrefly: ignore[missing-import]

        about: dict[str, Any] = {"name": name, "id": name, "config": dict(config)}
        self._run = wandb.init(project="telic", dir=str(folder.parent), resume="allow", **about)
        self._run.define_metric("*", step_metric="step")
        self._video = wandb.Video

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def finish(self, result: Mapping[str, Any], videos: Sequence[Path]) -> None:
        self._run.summary.update(dict(result))
        self._run.log({f"videos/{path.stem}": self._video(str(path)) for path in videos})
        self._run.finish()


class _MLflow:
    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        import mlflow  # pyrefly: ignore[missing-import]

        mlflow.set_experiment("telic")
        self._client = mlflow.MlflowClient()
        self._run = mlflow.start_run(run_name=name).info.run_id
        mlflow.log_params({key: str(value)[:500] for key, value in config.items()})
        self._mlflow = mlflow

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics(dict(values), step=step, run_id=self._run)

    def finish(self, result: Mapping[str, Any], videos: Sequence[Path]) -> None:
        self._mlflow.log_dict(dict(result), "result.json", run_id=self._run)
        for path in videos:
            self._client.log_artifact(self._run, str(path), "videos")
        self._mlflow.end_run()


class _Trackio:
    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        import trackio  # pyrefly: ignore[missing-import]

        self._run = trackio.init(project="telic", name=name, config=dict(config), resume="allow")
        self._video = trackio.Video

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def finish(self, result: Mapping[str, Any], videos: Sequence[Path]) -> None:
        shown = {f"videos/{path.stem}": self._video(str(path)) for path in videos}
        self._run.log({**{f"result/{key}": result[key] for key in result}, **shown})
        self._run.finish()


_SINKS: dict[str, Callable[..., Sink]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "mlflow": _MLflow,
    "trackio": _Trackio,
}


def logs(do: Callable[[Asked], Result]) -> Callable[[Asked], Result]:
    """Extend an operation to send its events and result to the sinks that its request names."""

    @wraps(do)
    def logged(request: Asked) -> Result:
        if not request.log:
            return do(request)
        tracked = _Tracked(request)
        try:
            result = do(request.replace(on_event=tracked))
        except BaseException:
            tracked.finish(None)
            raise
        tracked.finish(result)
        return result

    return logged


class _Tracked:
    """Listener that forwards events to the request's listener and their numbers to sinks."""

    def __init__(self, request: PlacedRequest) -> None:
        self._request, self._folder = request, Path(request.runs_dir)
        self._makers = {name: _maker(name) for name in request.log}
        self._sinks: dict[str, Sink] = {}
        self._members: dict[MemberFolder, int] = {}
        self._iteration: str | None = None
        self._before, self._seen, self._last = 0, 0, 0.0

    def __call__(self, event: Event) -> None:
        self._request.on_event(event)
        match event:
            case SessionStart(session=name) | SearchStart(search=name):
                self._open(name)
            case SessionIterationStart(number=number):
                self._iteration = f"iter_{number}"
            case TrainStart(run=name, members=members):
                self._begin(name, members)
            case TrainProgress():
                if time.monotonic() - self._last > _EVERY_S:
                    self._send_rows()
            case SearchIterationEnd(run=run, episodes=episodes):
                self._send(episodes, {f"run_{run}/{x}": y for x, y in _numbers(event.model_dump())})
            case _ if event.NAME in ("eval.done", "train.end"):
                self._send_rows()
            case _ if event.NAME in ("session.checkpoint", "session.judged"):
                self._send(
                    self._before + self._seen,
                    {f"session/{name}": value for name, value in _numbers(event.model_dump())},
                )
            case _:
                pass

    def _begin(self, run: str, members: Sequence[str]) -> None:
        """Follow the metrics of a training run, whose steps continue those of earlier runs."""
        if self._iteration is None:
            self._open(run)
        within = (self._iteration, run) if self._iteration else ()
        folders = [MemberFolder(self._folder.joinpath(*within, name)) for name in members]
        self._members = dict.fromkeys(folders, 0)
        self._before += self._seen
        self._seen = 0

    def _open(self, name: str) -> None:
        """Create the sinks of a run, session or search, when its name is known."""
        self._folder = Path(self._request.runs_dir) / name
        public = [x.name for x in fields_of(type(self._request)) if x.how.scope != "inner"]
        config = dotted(plain({each: getattr(self._request, each) for each in public}))
        for kind, make in list(self._makers.items()):
            if kind not in self._sinks:
                self._try(kind, lambda k=kind, m=make: self._set(k, m(name, self._folder, config)))

    def _set(self, kind: str, sink: Sink) -> None:
        self._sinks[kind] = sink

    def _try(self, kind: str, do: Callable[[], Any]) -> None:
        """Call a sink and drop it if it fails."""
        try:
            do()
        except Exception as error:  # boundary to services of others
            self._sinks.pop(kind, None)
            text = f"Logging to {kind} stopped: {type(error).__name__}: {error}"
            self._request.on_event(LogMessage(message=text[:500]))

    def _send(self, step: int, values: Mapping[str, float]) -> None:
        for kind, sink in list(self._sinks.items()):
            self._try(kind, lambda each=sink: each.log(step, values))

    def _send_rows(self) -> None:
        """Send the metric rows that were written since the last call."""
        self._last = time.monotonic()
        by_step: dict[int, dict[str, float]] = {}
        for member, seen in list(self._members.items()):
            rows = read_rows(member.scalars) if member.scalars.exists() else []
            for row in rows[seen:]:
                tag = "eval/{}".format if is_evaluation(row) else _tag
                own = {f"{member.name}/{tag(x)}": y for x, y in _numbers(row)}
                by_step.setdefault(row["global_step"], {}).update(own)
            self._members[member] = len(rows)
        for step in sorted(by_step):
            self._send(self._before + step, by_step[step])
            self._seen = max(self._seen, step)

    def finish(self, result: Any) -> None:
        """Send the remaining rows, the result and its videos, and close all sinks."""
        self._send_rows()
        data = as_data(result)
        flat = dotted(plain(data)) if isinstance(data, dict) else {}
        videos = [*getattr(result, "videos", ()), *self._folder.glob("report/*.mp4")]
        for kind, sink in list(self._sinks.items()):
            self._try(kind, lambda each=sink: each.finish(flat, videos))


def _maker(name: str) -> Callable[..., Sink]:
    known = _SINKS.get(name) or load_plugin("sinks", name, _SINKS)
    if known is None:
        raise UnknownName("sink", name, [*_SINKS, *plugin_names("sinks", _SINKS)])
    if name in _SINKS and find_spec(name) is None:
        raise MissingExtra(name, name, f"--log {name}")
    return known


def _tag(name: str) -> str:
    found = (group for group, starts in _GROUPS.items() if name.startswith(starts))
    return f"{next(found, 'general')}/{name.removeprefix('reward_term_')}"


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the finite numbers of a row or event by dotted name."""
    for name, value in dotted(row).items():
        with suppress(TypeError):
            if name not in _NOT_METRICS and not isinstance(value, bool) and math.isfinite(value):
                yield name, value
