"""Work in processes of its own, wherever a launcher puts it; `pool.py` is the main flow."""
