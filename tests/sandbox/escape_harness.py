"""Entry module for the worker: execute attempts, with the allow-list or without, and report."""

import os
import sys
import traceback
from pathlib import Path


class RewardFunction:
    """Stands in for telic's own, which lives in a higher layer."""

    weights = None


def prepare(payload, channel):
    if payload["gpu"]:
        import torch

        torch.zeros(1, device="cuda")
    if payload["mode"] == "allowed":
        import torch

        from telic.sandbox.source import namespace

        namespace(PROVIDED)
    return {"parent": os.getppid()}


def run(state, payload, channel):
    channel.heartbeat(payload["beat_s"], "running the reward of attempt.py")
    act = run_allowed if payload["mode"] == "allowed" else run_raw
    outcomes = {}
    for name, source in payload["attempts"].items():
        outcomes[name] = act(name, source, {**payload["facts"], **state}, channel)
        channel.heartbeat(payload["beat_s"], f"running the reward of {name}")
    Path("still_writable").write_text("yes")
    return {"outcomes": outcomes}


def speed(info):
    return info["x_velocity"]


PROVIDED = {"telic": {"RewardFunction": RewardFunction, "quantities": {"speed": speed}}}


def run_allowed(name, source, facts, channel):
    """The whole path of a foreign reward: check, execute, call."""
    import numpy as np

    from telic.errors import RefusedCode
    from telic.sandbox.source import compile_source, namespace
    from telic.sandbox.tamper import FunctionSnapshot

    try:
        code = compile_source(source, f"{name}.py", extra_modules=PROVIDED)
    except RefusedCode as error:
        return {"stage": "refused", "reason": str(error), "line": error.line}
    seal = FunctionSnapshot()
    scope = namespace(PROVIDED)
    obs, info = np.zeros(4), {"x_velocity": 1.0}
    try:
        exec(code, scope)
        result = scope["reward_fn"](obs, np.ones(2), np.zeros(4), info)
    except Exception as error:
        if facts["alone"]:
            raise
        seal.check()
        return {"stage": "stopped", "reason": f"{type(error).__name__}: {error}"[:500]}
    seal.check()
    untouched = bool((obs == 0).all()) and info == {"x_velocity": 1.0}
    return {"stage": "ran", "reason": repr(result)[:500], "untouched": untouched}


def run_raw(name, source, facts, channel):
    """An attacker who got past the allow-list: all of Python, inside the sandboxed process."""
    scope = {"facts": facts, "channel": channel, "os": os, "sys": sys, "Path": Path}
    scope["syscall"] = syscall
    try:
        exec(source, scope)
        evidence = scope["attempt"]()
    except Exception as error:
        if facts["alone"]:
            raise
        code = getattr(error, "errno", None)
        trace = traceback.format_exc(limit=-2)
        return {
            "stage": "stopped",
            "reason": f"{type(error).__name__}: {error}",
            "errno": code,
            "trace": trace,
        }
    return {"stage": "ran", "reason": repr(evidence)[:500]}


def syscall(number, *arguments):
    """Make a raw system call; raises OSError as the os module does."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
