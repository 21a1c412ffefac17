"""Entry module for the tests of host and worker; what to do is in the payload."""

import os
import time
from pathlib import Path

from telic.errors import RewardError


def prepare(payload, channel):
    if payload["act"] == "fail_to_prepare":
        raise RewardError("no such model", hint="give one", line=4, term="speed")
    if payload["act"] == "prepare_for_ever":
        time.sleep(60)
    return {"prepared": Path(payload["outside"]).read_text()}


def run(state, payload, channel):
    channel.heartbeat(payload.get("beat_s", 30.0), "running the reward of test.py")
    return globals()[payload["act"]](state, payload, channel)


def echo(state, payload, channel):
    for number in range(3):
        channel.send({"event": "tick", "number": number})
    print("a stray line")
    os.write(1, b'{"kind":"result","body":{"fake":true}}\n')
    Path("made_here").write_text("x")
    return {
        **state,
        "data": payload["data"],
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "parent": os.getppid(),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
    }


def read_outside(state, payload, channel):
    return {"text": Path(payload["outside"]).read_text()}


def raise_reward_error(state, payload, channel):
    raise RewardError("term is NaN", hint="guard it", line=12, term="speed")


def raise_bug(state, payload, channel):
    raise KeyError("our own mistake")


def raise_memory_error(state, payload, channel):
    raise MemoryError


def tick_until_stopped(state, payload, channel):
    while not channel.should_stop():
        channel.send({"event": "tick"})
        channel.heartbeat(payload["beat_s"])
        time.sleep(0.02)
    return {"stopped": True}


def wait_for_stop(state, payload, channel):
    channel.send({"event": "waiting"})
    while not channel.should_stop():
        time.sleep(0.01)
        channel.heartbeat(30.0)
    return {"stopped": True}


def fall_silent(state, payload, channel):
    time.sleep(60)


def ask_and_think(state, payload, channel):
    channel.ask({"event": "question"})
    time.sleep(0.3)
    return {}


def keep_beating(state, payload, channel):
    for _ in range(15):
        channel.heartbeat(0.5)
        time.sleep(0.05)
    return {}


def burn(state, payload, channel):
    while True:
        pass


def announce_and_sleep(state, payload, channel):
    Path("pid").write_text(str(os.getpid()))
    time.sleep(600)
