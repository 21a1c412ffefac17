"""Run by the tests in a process of its own, which is confined for good.

Usage: python confined_script.py ACTION WRITABLE OUTSIDE. Prints one JSON object.
"""

import json
import os
import socket
import sys
import threading
from pathlib import Path

from telic.errors import TelicError
from telic.sandbox import _kernel as kernel
from telic.sandbox.confine import Confinement, confine, grants
from telic.sandbox.limits import Limits

FOLDER, OUTSIDE = Path(sys.argv[2]), Path(sys.argv[3])
LIMITS = Limits(memory_bytes=200 << 20, file_bytes=1 << 20)
RULES = Confinement(writable=[FOLDER], limits=LIMITS)


def tried(act):
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def doors():
    return {
        "read": tried(OUTSIDE.read_text),
        "write": tried(lambda: OUTSIDE.write_text("changed")),
        "inside": tried(lambda: (FOLDER / "made").write_text("x")),
        "socket": tried(socket.socket),
        "fork": tried(lambda: os.fork() or os._exit(0)),
        "memory": tried(lambda: bytearray(1 << 30)),
        "file": tried(lambda: (FOLDER / "large").write_bytes(b"x" * (2 << 20))),
    }


def plain():
    report = confine(RULES)
    return {"report": report.model_dump(), **doors()}


def ordinary_user():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    return {"uid": os.getuid(), **plain()}


def threads_first():
    event = threading.Event()
    thread = threading.Thread(target=event.wait, name="pool")
    thread.start()
    printed = tried(lambda: confine(RULES))
    event.set()
    thread.join()
    return {"said": printed, **doors()}


def threads_afterwards():
    import numpy as np
    import torch

    found = {"before": len(kernel.threads())}
    confine(Confinement(writable=[FOLDER]))
    x = torch.ones(600, 600, requires_grad=True)
    found["sum"] = float((x @ x).sum())
    (x * x).sum().backward()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tried(OUTSIDE.read_text)))
    thread.start()
    thread.join()
    torch.save({"x": x.detach()}, FOLDER / "x.pt")
    os.replace(FOLDER / "x.pt", FOLDER / "checkpoint.pt")
    np.savez(FOLDER / "a.npz", a=np.ones(3))
    loaded = torch.load(FOLDER / "checkpoint.pt")["x"].shape
    status = Path("/proc/self/status").read_text()
    return {
        **found,
        "after": int(status.split("Threads:")[1].split()[0]),
        "loaded": list(loaded),
        "thread": seen[0],
    }


def moved_between_folders():
    confine(RULES)
    (FOLDER / "a").mkdir()
    (FOLDER / "b").mkdir()
    (FOLDER / "a" / "x").write_text("x")
    return {"moved": tried(lambda: os.rename(FOLDER / "a" / "x", FOLDER / "b" / "x"))}


def old_kernel():
    version = int(sys.argv[4])
    kernel.forbid_new_privileges()
    kernel.restrict_files(grants([FOLDER], [], []), version)
    return {name: result for name, result in doors().items() if name in ("read", "write", "inside")}


def without_kernel_support():
    kernel.landlock_abi = lambda: 0
    kernel.has_filter = lambda: False
    return plain()


def environment():
    os.environ["TELIC_TEST_API_KEY"] = "sk-secret"
    os.environ["LANG"] = "C.UTF-8"
    confine(RULES)
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return {"names": sorted(os.environ), "c": getenv(b"TELIC_TEST_API_KEY") is not None}


if __name__ == "__main__":
    try:
        answer = globals()[sys.argv[1]]()
    except TelicError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)
