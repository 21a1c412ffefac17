"""Compile the native gradient step when telic is built, if there is a C compiler.

Editable installs get the libraries beside their source, and wheels contain them. Without a compiler
the wheel is pure Python, and training uses PyTorch alone.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/telic/training/fused.c")
FLAGS = (
    *("-O3", "-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-psabi"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
)
# The library calls no function of libc, so it runs with every version and with musl.
WITHOUT_LIBC = ("-ffreestanding", "-nostdlib", "-fno-tree-loop-distribute-patterns")
VARIANTS = {
    "x86_64": {"avx512": "-march=x86-64-v4", "avx2": "-march=x86-64-v3"},
    "aarch64": {"neon": "-march=armv8-a"},
    "arm64": {"neon": "-mcpu=apple-m1"},
}
TAGS = {"linux": "manylinux_2_17_{0}.musllinux_1_1_{0}", "darwin": "macosx_11_0_{0}"}


class NativeBuildHook(BuildHookInterface):
    """Build hook of hatchling for wheels and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile one library for each instruction set of this machine's architecture."""
        machine, compiler = platform.machine(), shlex.split(os.environ.get("CC", "cc"))
        if sys.platform not in TAGS or machine not in VARIANTS:
            return
        source = Path(self.root) / SOURCE
        libc = WITHOUT_LIBC if sys.platform == "linux" else ()
        for name, flag in VARIANTS[machine].items():
            library = source.with_name(f"libfused-{name}.so")
            command = [*compiler, *FLAGS, *libc, flag, "-o", str(library), str(source)]
            try:
                subprocess.run(command, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                self.app.display_warning(f"Training will be slower on CPUs: {error}")
                return
        build_data["artifacts"].append(f"{SOURCE.parent}/libfused-*.so")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{TAGS[sys.platform].format(machine)}"
