"""Physics: N simulations of one model behind one small protocol."""

from telic.sim.base import Simulation, copy_fields, put_back_fields
from telic.sim.cpu import CpuSimulation
from telic.sim.simulation import altering, load_model, simulate

__all__ = [
    "CpuSimulation",
    "Simulation",
    "altering",
    "copy_fields",
    "load_model",
    "put_back_fields",
    "simulate",
]
