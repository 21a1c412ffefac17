"""Compare robots on CPU and GPU, and measure the cost of commands and domain randomization.

    python benchmarks/robots.py                     parity of all robots, and costs on a CPU
    python benchmarks/robots.py parity              only parity, on Warp's CPU backend without a GPU
    python benchmarks/robots.py cost --device cuda --envs 4096

Downloads the robots on first use. Prints tables and writes benchmarks/results/robots.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import mujoco
import torch
from published import gpu, publish
from rich.console import Console
from rich.table import Table

from telic.envs import make
from telic.robots.build import built_robot
from telic.robots.catalogue import robot_names
from telic.sim._gpu import GpuSimulation
from telic.sim.cpu import CpuSimulation
from telic.sim.simulation import why_no_gpu

console = Console(width=120)
SIMS, STEPS, ROUNDS = 16, 40, 5
WORLDS: dict[str, dict[str, Any]] = {
    "none": {},
    "commands": {"commands": {}},
    "light domain randomization": {"variation": "light"},
    "full domain randomization": {"variation": "full"},
    "full, commands, history of 3": {"variation": "full", "commands": {}, "history": 3},
    "rough terrain": {"terrain": "rough"},
}


def main() -> None:
    """Run the parts given on the command line, or all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["parity", "cost"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--robot", default="unitree-go1")
    asked = parser.parse_args()
    results: dict[str, Any] = {}
    if "parity" in asked.parts:
        results["parity"] = [parity(name) for name in robot_names()]
        show("one control step from equal states, CPU and GPU simulation", results["parity"])
    if "cost" in asked.parts:
        results["cost"] = cost(asked.robot, asked.device, asked.envs)
        show(f"{asked.robot}, {asked.envs} environments on {asked.device}", results["cost"])
        about = f"{asked.envs} {asked.robot}"
        publish("robot-cost", results["cost"], None if asked.device == "cpu" else gpu(), about)
    out = Path(__file__).parent / "results" / "robots.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")


def parity(name: str) -> dict[str, Any]:
    """Return the differences of joints and base after one control step from equal states."""
    path = built_robot(name)
    assert path is not None
    model = mujoco.MjModel.from_xml_path(str(path))
    device = "cpu" if why_no_gpu() else "cuda"
    chance = torch.Generator().manual_seed(7)
    cpu, gpu = CpuSimulation(model, SIMS), GpuSimulation(model, SIMS, device=device)
    home = torch.tensor(model.key_qpos[0]).repeat(SIMS, 1)
    joints = [int(model.jnt_qposadr[model.actuator_trnid[i, 0]]) for i in range(model.nu)]
    cpu.reset(torch.ones(SIMS, dtype=torch.bool), home, torch.zeros(SIMS, model.nv).double())
    for _ in range(10):  # a foot that touches by nothing at all does so on one of them only
        cpu.step(home[:, joints], 4)
    apart: list[torch.Tensor] = []
    moved = 0.0
    for _ in range(STEPS):  # states as they come: feet that land, slip and leave the ground
        before = cpu.field("qpos").clone(), cpu.field("qvel").clone()
        lagging = cpu.field("act").clone() if model.na else None
        noise = torch.randn(SIMS, model.nu, generator=chance, dtype=torch.float64)
        control = home[:, joints] + 0.15 * noise
        cpu.step(control, 4)
        everyone = torch.ones(SIMS, dtype=torch.bool, device=gpu.device)
        gpu.reset(everyone, *(part.to(gpu.device) for part in before))
        if lagging is not None:  # actuators with a state of their own are where they were, too
            gpu.field("act").copy_(lagging)
        gpu.step(control.to(gpu.device), 4)
        after = cpu.field("qpos")
        apart.append((after - gpu.field("qpos").double().cpu()).abs().amax(1))
        moved = max(moved, float((after - before[0]).abs().max()))
    every = torch.cat(apart)
    return {
        "robot": name,
        "joints": int(model.nu),
        "device": device,
        "moved": moved,
        "median": float(every.median()),
        "99 %": float(every.quantile(0.99)),
        "most": float(every.max()),
    }


def cost(robot: str, device: str, envs: int) -> list[dict[str, Any]]:
    """Return steps per second in every kind of environment, as the median of five measurements."""
    worlds = {
        name: make(robot, num_envs=envs, device=device, seed=1, **arguments)
        for name, arguments in WORLDS.items()
    }
    times: dict[str, list[float]] = {name: [] for name in worlds}
    for env in worlds.values():
        env.reset()
        _steps(env)
    for _ in range(ROUNDS):
        for name, env in worlds.items():
            times[name].append(_steps(env))
    plain = statistics.median(times["none"])
    return [
        {
            "world": name,
            "steps_per_s": envs * STEPS / statistics.median(own),
            "cost": statistics.median(own) / plain - 1.0,
        }
        for name, own in times.items()
    ]


def _steps(env: Any) -> float:
    action = env.action_rest.expand(env.num_envs, -1)
    _wait(env)
    began = time.perf_counter()
    for _ in range(STEPS):
        env.step(action)
    _wait(env)
    return time.perf_counter() - began


def _wait(env: Any) -> None:
    if env.device.type == "cuda":
        torch.cuda.synchronize()


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(
            name.replace("_", " "), justify="left" if isinstance(rows[0][name], str) else "right"
        )
    for row in rows:
        table.add_row(
            *(f"{each:.3g}" if isinstance(each, float) else str(each) for each in row.values())
        )
    console.print(table)


if __name__ == "__main__":
    main()
