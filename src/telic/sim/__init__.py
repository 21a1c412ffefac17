"""Physics: N simulations of one model behind one small protocol."""

from telic.sim.choose import simulate
from telic.sim.cpu import CpuSimulation
from telic.sim.model import load_model
from telic.sim.simulation import Simulation, copy_fields, put_back_fields

__all__ = [
    "CpuSimulation",
    "Simulation",
    "copy_fields",
    "load_model",
    "put_back_fields",
    "simulate",
]
