"""Physics: N simulations of one model behind one small protocol."""

from telic.sim.cpu import CpuSimulation
from telic.sim.model import load_model
from telic.sim.simulation import Simulation

__all__ = ["CpuSimulation", "Simulation", "load_model"]
