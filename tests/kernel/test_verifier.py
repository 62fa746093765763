# SPDX-License-Identifier: Apache-2.0
"""The programs stay far below what the verifier is willing to follow: older ones follow more, and give up sooner."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tracer.kernel.cudacalls import ENTERED, RETURNED
from tracer.kernel.handover import FIRST_PID_NAMESPACE, PERF_BUFFER, RING_BUFFER
from tracer.kernel.probes import Wanted
from tracer.kernel.session import PYTHON

GIVES_UP_AT = 1_000_000
"""BPF_COMPLEXITY_LIMIT_INSNS, include/linux/bpf.h."""
MARGIN = 5
"""Kernel 5.10 follows up to three times as many as 6.18 does, and each compiler makes other code."""

# Under the distribution's Python, as the loader, whose own functions it takes: how many instructions the verifier
# followed in each program, `verified_insns` of bpf_prog_info (0 before 5.16).
COUNT = r"""
import ctypes, json, os, struct, sys, types
root, namespace, transport, fragments, functions = sys.argv[1], int(sys.argv[2]), *map(json.loads, sys.argv[3:6])
for name, path in (("tracer", root + "/tracer"), ("tracer.kernel", root + "/tracer/kernel")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [path]
from tracer.kernel import handover, headers, loader
from tracer.kernel.btf import Btf
text, events_h = loader._source(root + "/bpf", fragments)
constants = handover.constants(handover.Limits(), os.sysconf("SC_PAGE_SIZE"), namespace, transport)
program = loader._compile(text, headers.kernel_h(Btf.load(), constants), events_h)
libbcc = ctypes.CDLL("libbcc.so.0")
verified = {}
for function, kind in functions.items():
    info, size = ctypes.create_string_buffer(512), ctypes.c_uint32(512)
    fd = program.load_func(function.encode(), getattr(type(program), kind)).fd
    assert libbcc.bpf_obj_get_info(fd, info, ctypes.byref(size)) == 0
    verified[function] = struct.unpack_from("=I", info, 216)[0]
print(json.dumps(verified))
"""


@pytest.mark.parametrize("namespace", [FIRST_PID_NAMESPACE, 0x7FFF_0001], ids=["outside", "in a pid namespace"])
@pytest.mark.parametrize("transport", [RING_BUFFER, PERF_BUFFER])
@pytest.mark.parametrize("wanted", [Wanted(console=True), Wanted(cuda=True)], ids=["kills", "cuda"])
def test_the_verifier_follows_far_less_than_it_would(can_trace, does_not_apply, tmp_path, namespace, transport, wanted):
    rungs = [probe.rungs[0] for probe in wanted.probes if probe.rungs[0].kind == "raw_tracepoint"]
    functions = {rung.function: "RAW_TRACEPOINT" for rung in rungs}
    if wanted.cuda:
        functions |= {ENTERED: "KPROBE", RETURNED: "KPROBE"}
    counting = tmp_path / "count.py"
    counting.write_text(COUNT)
    done = subprocess.run(
        [
            PYTHON, "-I", "-B", str(counting), str(ROOT), str(namespace),
            json.dumps(transport), json.dumps(wanted.fragments), json.dumps(functions),
        ],
        capture_output=True, text=True, check=False, cwd=Path("/"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    followed = json.loads(done.stdout)

    if not any(followed.values()):
        does_not_apply("this kernel does not count them; that they load was tried")
    assert followed.keys() == functions.keys()
    assert {name: n for name, n in followed.items() if not 0 < n < GIVES_UP_AT // MARGIN} == {}
