"""Tests. Numerical libraries use one thread: further ones would wait for processors in use."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
