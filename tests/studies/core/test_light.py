"""Studies need neither torch nor a simulator in the target's environment."""

import subprocess
import sys

HEAVY = ("torch", "mujoco", "gymnasium", "scipy", "matplotlib", "fastapi")
_PROGRAM = """
import importlib, pkgutil, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy}:
            raise ImportError("the study part alone does not bring " + name)
sys.meta_path.insert(0, Refuse())
import telic.studies, telic.verbs
for package in (telic.studies, telic.verbs):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if package is telic.studies or module.name.startswith("telic.verbs.study"):
            importlib.import_module(module.name)
from telic.cli import _results
print(len(sys.modules))
"""


def test_the_study_part_imports_nothing_heavy():
    program = _PROGRAM.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-800:]
