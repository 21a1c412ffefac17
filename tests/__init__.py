"""Tests. Numerical libraries use one thread, because more would wait for busy cores."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
