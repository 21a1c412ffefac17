"""Run work in separate processes, which launchers start. The main module is `pool.py`."""
