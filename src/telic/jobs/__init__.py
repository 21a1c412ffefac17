"""Run work in separate processes that a launcher starts. `pool.py` is the main module."""
