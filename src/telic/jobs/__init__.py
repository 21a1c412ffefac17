"""Work in separate processes, started by a launcher; `pool.py` is the main flow."""
