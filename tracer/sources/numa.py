# SPDX-License-Identifier: Apache-2.0
"""Nodes of memory: /sys/devices/system/node. Read once; memory of GPUs is there where it is coherent."""

import os
import re
import time
from collections.abc import Callable

from tracer.events import NumaNode, NumaNodes
from tracer.pseudofiles import read_bytes
from tracer.units import KIB

MAX_NODES = 1024
"""MAX_NUMNODES with CONFIG_NODES_SHIFT=10."""
_NAME = re.compile(r"node(\d{1,4})")
_TOTAL = re.compile(rb"^Node \d+ MemTotal:\s+(\d{1,16}) kB$", re.MULTILINE)
_RANGE = re.compile(rb"(\d{1,6})(?:-(\d{1,6}))?")


def read_numa_nodes(
    root: str = "/sys/devices/system/node", *, clock: Callable[[], int] = time.monotonic_ns
) -> NumaNodes | None:
    """All nodes; `None`: no such folder (no CONFIG_NUMA, or sysfs is hidden), or one that cannot be read."""
    try:
        numbers = sorted(int(found[1]) for found in map(_NAME.fullmatch, os.listdir(root)) if found)
    except OSError:
        return None
    nodes = [_node(root, number) for number in numbers[:MAX_NODES]]
    known = tuple(node for node in nodes if node is not None)
    # That a node has memory and no CPU must not be missed because it could not be read.
    return NumaNodes(ts_ns=clock(), source="pressure", nodes=known) if known and len(known) == len(numbers) else None


def _node(root: str, number: int) -> NumaNode | None:
    total = _TOTAL.search(read_bytes(f"{root}/node{number}/meminfo") or b"")
    cpus = read_bytes(f"{root}/node{number}/cpulist")
    if total is None or cpus is None:
        return None
    count = sum(int(last or first) - int(first) + 1 for first, last in _RANGE.findall(cpus))
    return NumaNode(node=number, mem_total_bytes=int(total[1]) * KIB, cpus=count)
