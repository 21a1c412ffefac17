"""Run work in separate processes that are started by launchers. The main module is `pool.py`."""
