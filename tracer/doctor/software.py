# SPDX-License-Identifier: Apache-2.0
"""The distribution's Python and its bcc: whether both are there, and of which version."""

import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tracer.doctor import remedies
from tracer.doctor.model import Answer, Capability
from tracer.kernel.session import PYTHON

OLDEST_PYTHON = (3, 8)
OLDEST_BCC = (0, 15)
"""BPF_RINGBUF_OUTPUT and raw tracepoints by name came with it."""
TRIED_BCC = ((0, 18), (0, 37))
"""With these, and some between, the programs were compiled and a kill was seen."""
PATIENCE_S = 20.0

_ASK = "import sys; print('python', *sys.version_info[:2]); import bcc; print('bcc', bcc.__version__)"


@dataclass(frozen=True)
class Asked:
    """What the distribution's Python answered; `None`: there is none."""

    python: str | None
    bcc: str | None = None
    why_not: str | None = None
    """Its last words, where bcc could not be imported."""


def ask(python: str = PYTHON) -> Asked:
    """Have it import bcc, as the loader does."""
    try:
        done = subprocess.run(
            [python, "-I", "-B", "-c", _ASK],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Asked(python="?", why_not=f"no answer in {PATIENCE_S:.0f} s")
    except OSError as error:
        return Asked(python=None, why_not=error.strerror or str(error))
    said = dict(
        line.partition(" ")[::2] for line in done.stdout.decode("utf-8", "backslashreplace").split("\n") if line
    )
    words = done.stderr.decode("utf-8", "backslashreplace").strip().split("\n")
    why_not = None if "bcc" in said else words[-1][:200] or f"exit {done.returncode}"
    return Asked(python=said.get("python", "?").replace(" ", "."), bcc=said.get("bcc"), why_not=why_not)


def check(
    system: Mapping[str, str], *, root: bool, asked: Callable[[], Asked] = ask, python: str = PYTHON
) -> Iterable[Capability]:
    """Both, each with how to get it."""
    answer = asked()
    version = _numbers(answer.python)
    old = version is not None and version < OLDEST_PYTHON
    yield Capability(
        id="python",
        name=python,
        ok="no" if answer.python is None or old else "yes",
        found="not there" if answer.python is None else f"Python {answer.python}",
        meaning="runs the loader child: the one Python whose packages include bcc",
        links=(1, 2, 3, 4),
        weight="proof",
        remedy=_python_remedy(answer.python, root=root, old=old),
    )
    ok, found = _judged(answer)
    yield Capability(
        id="bcc",
        name="bcc",
        ok=ok,
        found=found,
        meaning="compiles the BPF programs; without it the kernel is not watched",
        links=(1, 2, 3, 4),
        weight="proof",
        remedy=None if ok == "yes" else remedies.install_bcc(system, root=root),
    )


def _judged(answer: Asked) -> tuple[Answer, str]:
    if answer.bcc is None:
        return "no", f"cannot be imported: {answer.why_not}"
    version = _numbers(answer.bcc)
    if version is None:
        return "unknown", f"of an unknown version: {answer.bcc[:40]}"
    if version < OLDEST_BCC:
        return "no", f"version {answer.bcc[:40]} is too old: it knows no ring buffer"
    if not TRIED_BCC[0] <= version <= TRIED_BCC[1]:
        tried = " to ".join(f"{major}.{minor}" for major, minor in TRIED_BCC)
        return "unknown", f"version {answer.bcc[:40]}; {tried} were tried"
    return "yes", f"version {answer.bcc[:40]}"


def _python_remedy(version: str | None, *, root: bool, old: bool) -> str | None:
    if version is None:
        return f"install your distribution's python3, so that {PYTHON} is there" + ("" if root else " (needs root)")
    return "its python3 is older than 3.8: a newer release of the distribution has one" if old else None


def _numbers(version: str | None) -> tuple[int, int] | None:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", version or "")
    return None if match is None else (int(match[1]), int(match[2]))
