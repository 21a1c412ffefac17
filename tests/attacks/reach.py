"""Everything untrusted code can get hold of, found by walking, and attacked: names, then calls.

Runs as the entry of a sandboxed worker. From the objects that rewards and judges are handed, every
attribute of every object is asked for through the guard; what is given is walked in turn, by type,
and what can be called is called with hostile arguments. Types are met at run time, so a field that
is added tomorrow is attacked tomorrow.
"""

import itertools
import json
import math
import os
import pickle
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from telic.envs import make
from telic.judges.code import OFFERED as JUDGE_OFFERED
from telic.judges.criteria import score
from telic.judges.episode import RecordedEpisode
from telic.judges.failure_modes import failure_modes
from telic.rewards._run import RowInfo, lend, private_schema
from telic.rewards.contract import RewardFunction
from telic.rewards.load import provided_names
from telic.rewards.recording import collect
from telic.sandbox._guard import ask
from telic.sandbox.source import namespace
from telic.sandbox.tamper import FunctionSnapshot

ENV = "HalfCheetah-v5"
# Powers of whole numbers may never end; the watch over a silent worker ends them (test_escapes).
_ENDLESS = ("pow", "matrix_power", "prod")


class Bomb:
    """Unpickling it would leave a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def hostile(folder: str) -> list:
    """Return arguments of every unpleasant kind."""
    return [
        (),
        (0,),
        (-1,),
        (2**31,),
        (math.nan,),
        (1e308,),
        ("",),
        ("__class__",),
        (f"{folder}/planted",),
        ("/etc/passwd",),
        (pickle.dumps(Bomb(f"{folder}/planted")),),
        (None,),
        ([],),
        ({},),
        ({"credit": 99.0},),
        (lambda *a, **k: 99.0,),
        (np.full(3, 99.0),),
        (torch.full((4,), 99.0),),
        (torch.full((3,), 10**9),),
        (0, 0),
        (0, 10**9),
        ("forward_velocity", -1),
        (torch.zeros(4, 3), 99.0),
        (slice(None), 99.0),
    ]


HOSTILE_KEYWORDS = [
    {},
    {"update": {"credit": 99.0}},
    {"out": np.zeros(4)},
    {"dtype": object},
    {"proto": "pickle", "allow_pickle": True},
]


def handed_out() -> dict[str, object]:
    """Return what untrusted code holds at the start, by how it got it."""
    env = make(ENV, num_envs=4, seed=0)
    moment = collect(env, 4).transitions[-1]
    env.close()
    info = lend(moment.info, private_schema(moment.info.schema))
    row = RowInfo(moment.info, {}, 0)
    examples = failure_modes(ENV, {})
    episode = RecordedEpisode(examples.trajectory(examples.names[0]), examples.spec)
    start = {
        "obs": moment.obs.clone(),
        "action": moment.action.clone(),
        "info": info,
        "row of info": row,
        "episode": episode,
        "leaf": score("x", 0.5, zero=0.0, goal=1.0),
        "an error": ValueError("x"),
        "a function": lambda x: x,
    }
    for name, offered in (("reward", provided_names()), ("judge", JUDGE_OFFERED)):
        for name, value in namespace(offered).items():
            if not name.startswith("__") and name != "the guard":
                start[f"{name}'s {name}"] = value
    return start


def frozen_modules(value: object) -> dict[str, object]:
    """Return the members of a stand-in for a module, which need no guard."""
    return {k: v for k, v in vars(value).items() if k != "__name__"}


def inside(path: str, value: object) -> list[tuple[str, object]]:
    """Return what a container holds; indexing needs no attribute."""
    if isinstance(value, dict):
        return [(f"{path}[{key!r:.40}]", each) for key, each in value.items()]
    if isinstance(value, (list, tuple, set)):
        return [(f"{path}[{i}]", each) for i, each in enumerate(itertools.islice(value, 20))]
    if isinstance(value, Mapping):
        names = [*value, *(name for name in ("mj_data", "mj_model") if name in value)]
        return [(f"{path}[{name!r}]", value[name]) for name in names]
    return []


def names_of(value: object) -> list[str]:
    kind = type(value)
    names = set(dir(kind)) | set(getattr(value, "__dict__", ()))
    fields = getattr(kind, "model_fields", None)
    return sorted(names | set(fields or ()))


def prepare(payload, channel):
    return handed_out()


def run(start, payload, channel):
    """Walk, attack, and report what was tried and what changed."""
    rng = random.Random(payload["seed"])
    before = canaries()
    seal = FunctionSnapshot()
    counts = {"asked": 0, "refused": 0, "given": 0, "called": 0, "errors": 0}
    kinds: dict[str, list[str]] = {}
    waiting = list(start.items())
    seen: set[object] = set()
    alive = []  # an id is only good while its object lives
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, (dict, list, tuple, set)):
            alive.append(value)
        kind = type(value)
        if kind.__name__ == "FrozenModule":
            waiting += [(f"{path}.{k}", v) for k, v in frozen_modules(value).items()]
            continue
        containers = (dict, list, tuple, set)
        key = value if callable(value) else id(value) if isinstance(value, containers) else kind
        try:
            if key in seen:
                continue
            seen.add(key)
        except TypeError:
            key = kind
            if key in seen:
                continue
            seen.add(key)
        channel.heartbeat(payload["beat_s"], f"attacking {path}")
        waiting += inside(path, value)
        for name in names_of(value):
            counts["asked"] += 1
            try:
                found = ask(value, name)
            except Exception:
                counts["refused"] += 1
                continue
            counts["given"] += 1
            kinds.setdefault(kind.__name__, []).append(name)
            waiting.append((f"{path}.{name}", found))
        if callable(value) and not isinstance(value, type):
            arguments = [*hostile(payload["folder"]), *((start[name],) for name in OWN)]
            waiting += calls(path, value, arguments, counts, rng, payload["calls"])
    seal.check()
    changed = [name for name, value in canaries().items() if before[name] != value]
    planted = [each.name for each in Path(payload["folder"]).iterdir() if each.name == "planted"]
    return {"counts": counts, "kinds": kinds, "changed": changed, "planted": planted}


OWN = ("info", "obs", "episode", "leaf")


def calls(path, function, arguments, counts, rng, how_many):
    """Call with a sample of hostile arguments; return what came back, to be walked.

    What came back is also overwritten: if it is shared, a canary changes.
    """
    endless = any(each in path for each in _ENDLESS)
    keywords = [each for each in HOSTILE_KEYWORDS if not (endless and "dtype" in each)]
    choices = list(itertools.product(arguments, keywords))
    likely = [((each,), {}) for (each,) in arguments[-len(OWN) :]]
    back = []
    for given, keyword in [*rng.sample(choices, how_many), *likely]:
        counts["called"] += 1
        try:
            with torch.no_grad():
                result = function(*given, **keyword)
                back.append((f"{path}(…)", result))
                for each in result if isinstance(result, tuple) else (result,):
                    overwrite(each)
        except Exception:
            counts["errors"] += 1
    return back


def overwrite(value: object) -> None:
    if isinstance(value, torch.Tensor):
        value.fill_(99)
    elif isinstance(value, np.ndarray):
        value[...] = 99
    elif isinstance(value, list):
        value[:] = [99]
    elif isinstance(value, dict):
        value["planted"] = 99


def canaries() -> dict[str, str]:
    """Return the values that no call may change."""
    env = make(ENV, num_envs=4, seed=0)
    recording = collect(env, 4)
    env.close()
    moment = recording.transitions[-1]
    from telic.quantities import QUANTITIES

    measured = {
        name: quantity(moment.info).tolist()
        for name, quantity in QUANTITIES.items()
        if quantity.kind == "instant" and not quantity.arguments and quantity.available(env.spec)
    }
    return {
        "quantities": json.dumps(measured),
        "recording": json.dumps([each.next_obs.tolist() for each in recording.transitions]),
        "reward class": repr({k: repr(v) for k, v in vars(RewardFunction).items()}),
        "environment": repr(sorted(os.environ.items())),
        "torch": repr(
            (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads())
        ),
        "numpy": repr(np.geterr()),
        "random": repr((torch.initial_seed(), hash(np.random.get_state()[1].tobytes()))),
        "working folder": os.getcwd(),
    }
