# SPDX-License-Identifier: Apache-2.0
"""Nodes of memory: with CPUs, without, unreadable."""

import pytest

from tracer.events import NumaNode
from tracer.sources.numa import read_numa_nodes


def tree(root, nodes):
    for number, (mib, cpus) in nodes.items():
        (root / f"node{number}").mkdir()
        meminfo = f"Node {number} MemTotal:       {mib << 10} kB\nNode {number} MemFree:  1 kB\n"
        (root / f"node{number}" / "meminfo").write_text(meminfo)
        (root / f"node{number}" / "cpulist").write_text(cpus)
    (root / "online").write_text("0-9\n")
    (root / "power").mkdir()
    return str(root)


def test_a_node_with_memory_and_no_cpu_is_a_gpus(tmp_path):
    found = read_numa_nodes(
        tree(tmp_path, {10: (512, "\n"), 0: (1024, "0-71\n"), 1: (0, "72,74-75\n")}), clock=lambda: 5
    )

    assert found.ts_ns == 5
    assert found.nodes == (
        NumaNode(node=0, mem_total_bytes=1 << 30, cpus=72),
        NumaNode(node=1, mem_total_bytes=0, cpus=3),
        NumaNode(node=10, mem_total_bytes=1 << 29, cpus=0),
    )


@pytest.mark.parametrize("name", ["meminfo", "cpulist"])
def test_a_node_that_cannot_be_read_makes_all_unknown(tmp_path, name):
    root = tree(tmp_path, {0: (1024, "0-3\n"), 1: (1024, "\n")})
    (tmp_path / "node1" / name).unlink()

    assert read_numa_nodes(root) is None


def test_a_kernel_without_nodes_says_nothing(tmp_path):
    assert read_numa_nodes(str(tmp_path)) is None
    assert read_numa_nodes(str(tmp_path / "none")) is None
