# SPDX-License-Identifier: Apache-2.0
"""Which Python runs a workload: ours, or for those that need PyTorch one that has it."""

import functools
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ASK = "import sys, importlib.util as u; sys.exit(u.find_spec('torch') is None)"
_PATIENCE_S = 60


@functools.cache
def torch_python() -> str | None:
    """The one that scripts/setup --torch makes, or else the first in PATH that has PyTorch."""
    for candidate in (f"{ROOT}/.venv-torch/bin/python", sys.executable, "python3", "python"):
        found = shutil.which(candidate)
        if found is not None and _has_torch(found):
            return found
    return None


def _has_torch(python: str) -> bool:
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            capture_output=True,
            cwd="/",
            timeout=_PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
