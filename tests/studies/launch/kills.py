"""Kill a launch loop at random moments, inspect its files, and resume.

    python -m tests.studies.launch.kills TRIALS SEED FOLDER [--without-claim]

A child process launches one run after the other; it is killed with SIGKILL after a random time, now
and then together with the supervisor of a run, and now and then two children work at once. The next
child starts with what it finds. What must hold afterwards is in `faults`.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from telic.errors import TelicError
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import reconcile
from tests.studies.fresh import FreshStudy
from tests.studies.launch.toy_study import (
    AGENT,
    change_contract,
    make_baseline,
    make_study,
    starts,
)

SEEDS = tuple(range(1, 31))
LONGEST_S = 1.0
AIMED = 0.8
"""share of the kills that come shortly after a launch was announced, where most can go wrong"""
AIMED_S = 0.25
TWO_AT_ONCE = 0.25
SUPERVISOR_TOO = 0.15
OVER = ("finished", "failed", "killed")


def make_trial_study(home: Path) -> FreshStudy:
    study = make_study(home / "repo")
    limits = {"limits": {"max_concurrent": 4}}
    change_contract(study, {"budget": {"launches": 500}, "scope": limits})
    make_baseline(study, SEEDS)
    return study


def drive(folder) -> None:
    """Launch every seed that has neither finished nor lives; leave when none is left."""
    study = FreshStudy(folder)
    candidate = next(iter(study.state.candidates))
    while True:
        reconcile(study)
        state = study.state
        runs = state.runs_of(candidate, "smoke").values()
        busy = {run.seed for run in runs if run.is_live or run.status in OVER}
        left = [seed for seed in SEEDS if seed not in busy]
        if state.candidates[candidate].status not in ("validated", "launched"):
            return
        if not left or len(state.active_runs) >= 4:
            time.sleep(0.01)
            continue
        request = LaunchRequest(candidate, "smoke", left[0], confirm=TOKEN)
        try:
            launch(FreshStudy(folder), request, AGENT)
        except TelicError as error:
            # Another driver may take the same seed first, or settle the last run of the phase.
            status = FreshStudy(folder).state.candidates[candidate].status
            is_open = status in ("validated", "launched")
            if is_open and "G16" not in str(error) and "G11" not in str(error):
                raise


def fork(folder) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        drive(folder)
        os._exit(0)
    except BaseException as error:  # a child must never return into the parent's code
        sys.stderr.write(f"driver: {type(error).__name__}: {error}\n")
        os._exit(1)


def trial(study: FreshStudy, luck: random.Random) -> tuple[str, int]:
    """Let drivers work for a random time and kill them; return the last entry and the errors."""
    drivers = [fork(study.folder) for _ in range(2 if luck.random() < TWO_AT_ONCE else 1)]
    if luck.random() < AIMED:
        wait_for_intent(study)
        time.sleep(luck.uniform(0.0, AIMED_S))
    else:
        time.sleep(luck.uniform(0.0, LONGEST_S))
    if luck.random() < SUPERVISOR_TOO:
        kill_a_supervisor(study, luck)
    failed = 0
    for pid in drivers:
        os.kill(pid, signal.SIGKILL)
        failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    last = study.ledger.path.read_bytes().splitlines()[-1]
    try:
        moment = json.loads(last)["entry"]["kind"]
    except ValueError:
        moment = "a torn line"
    return moment, failed


def wait_for_intent(study: FreshStudy) -> None:
    """Wait until the ledger has grown by the announcement of a launch."""
    known, deadline = study.ledger.path.stat().st_size, time.monotonic() + 8 * LONGEST_S
    while time.monotonic() < deadline:
        with study.ledger.path.open("rb") as file:
            file.seek(known)
            if b'"kind":"launch.intent"' in file.read():
                return
        time.sleep(0.001)


def kill_a_supervisor(study: FreshStudy, luck: random.Random) -> None:
    processes = [RunProcess(folder) for folder in study.folder.runs.glob("*")]
    alive = [process.claim["pid"] for process in processes if process.state == "alive"]
    if alive:
        os.kill(luck.choice(alive), signal.SIGKILL)


def settle(study: FreshStudy) -> None:
    deadline = time.monotonic() + 240
    while reconcile(study) and study.state.active_runs:
        if time.monotonic() > deadline:
            raise AssertionError(f"{study.state.active_runs} never ended")
        time.sleep(0.02)


def faults(study: FreshStudy) -> list[str]:
    """Return everything that must not be, after all runs have ended."""
    found = []
    check = study.ledger.verify()
    if not check.ok:
        found.append(f"ledger: line {check.bad_seq}: {check.why}")
    events, state = study.events, FreshStudy(study.folder).state
    by_nonce = {run.nonce: run for run in state.runs.values()}
    for nonce, count in Counter(nonce for nonce, _ in starts(study)).items():
        if count > 1:
            found.append(f"{nonce} was started {count} times")
        if nonce not in by_nonce or by_nonce[nonce].status == "aborted":
            found.append(f"{nonce} was started and is not accounted for")
    for seed in SEEDS:
        tries = [r for r in state.runs.values() if r.seed == seed and r.status != "aborted"]
        if any(run.status != "lost" for run in tries[:-1]):
            found.append(f"seed {seed} was launched again though {tries[0].status}")
    if any(value for value in state.budget.reserved.as_data().values()):
        found.append(f"still reserved: {state.budget.reserved}")
    real = [run for run in state.runs.values() if run.status != "aborted"]
    if (state.budget.spent.launches or 0) != len(real):
        found.append(f"{state.budget.spent.launches} launches were charged, {len(real)} made")
    ends = Counter(
        event.data["run"]
        for event in events
        if event.kind in ("run.finished", "run.failed", "run.killed", "run.lost", "launch.aborted")
    )
    found += [f"{run} ended {ends[run]} times" for run in state.runs if ends[run] != 1]
    return found


def run_trials(count: int, seed: int, home: Path) -> dict:
    """Run `count` trials over as many studies as it takes; return what was seen."""
    luck = random.Random(seed)
    os.environ["TELIC_CONFIG_DIR"] = str(home / "config")
    moments, problems, failed, finished, studies, done = Counter(), [], 0, 0, 0, 0
    while done < count:
        studies += 1
        # Not a copy of one study: the copy of a ledger with fewer lines counts as rolled back.
        study = make_trial_study(home / f"study-{studies}")
        statuses = {"validated"}
        while done < count and statuses & {"validated", "launched"}:
            done += 1
            moment, errors = trial(study, luck)
            moments[moment] += 1
            failed += errors
            statuses = {each.status for each in study.state.candidates.values()}
        settle(study)
        problems += [f"study {studies}: {each}" for each in faults(study)]
        finished += sum(run.status == "finished" for run in study.state.runs.values())
    found = {"faults": problems, "driver_errors": failed, "finished": finished}
    return {**found, "trials": done, "killed_after": dict(moments)}


def without_claim() -> None:
    """Break recovery: give launches up without making sure that they never start."""
    RunProcess.give_up = lambda *_: True


if __name__ == "__main__":
    if "--without-claim" in sys.argv:
        without_claim()
    print(json.dumps(run_trials(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
