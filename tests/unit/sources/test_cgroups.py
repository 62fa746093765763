# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from tracer.sources.cgroups import CgroupSource, MemoryMount
from tracer.units import NO_LIMIT_BYTES

V2_FILES = {
    "memory.current": "65536\n", "memory.max": "max\n", "memory.swap.current": "4096\n", "memory.swap.max": "8192\n",
    "memory.stat": "anon 100\nfile 200\nkernel 50\nshmem 30\nsock 0\n",
    "memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n",
    "memory.events.local": "low 0\nhigh 0\nmax 5\noom 1\noom_kill 0\noom_group_kill 0\n",
}  # fmt: skip
V1_FILES = {
    "memory.usage_in_bytes": "65536\n", "memory.limit_in_bytes": "9223372036854771712\n",
    "memory.memsw.usage_in_bytes": "70000\n", "memory.memsw.limit_in_bytes": "131072\n", "memory.failcnt": "19\n",
    "memory.kmem.usage_in_bytes": "777\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 1\noom_kill 4\n",
    "memory.stat": "cache 1\nrss 2\nshmem 3\ntotal_cache 10\ntotal_rss 20\ntotal_shmem 30\n",
}  # fmt: skip


class Tree:
    """A /proc and a cgroup file system in a folder."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroup = root / "proc", root / "cgroup"
        for folder in (self.proc / "self", self.cgroup):
            folder.mkdir(parents=True)

    def source(self) -> CgroupSource:
        return CgroupSource(str(self.cgroup), proc_root=str(self.proc), clock=lambda: 42)

    def mounts(self, *lines: str) -> None:
        (self.proc / "self" / "mountinfo").write_text(
            "".join(f"{line}\n" for line in lines).replace("@", str(self.cgroup))
        )

    def group(self, path: str, files: dict[str, str]) -> Path:
        folder = self.cgroup / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content)
        return folder

    def process(self, tgid: int, *lines: str) -> None:
        (self.proc / str(tgid)).mkdir(exist_ok=True)
        (self.proc / str(tgid) / "cgroup").write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def v2(tree):
    tree.group("/", {"cgroup.controllers": "cpu memory pids\n"})
    tree.mounts("25 1 0:23 / @ rw shared:4 - cgroup2 cgroup2 rw")
    return tree


@pytest.fixture
def v1(tree):
    tree.group("/memory", V1_FILES)
    tree.mounts(
        "25 1 0:23 / @ ro - tmpfs tmpfs ro",
        "30 25 0:30 / @/memory rw - cgroup cgroup rw,memory",
        "31 25 0:31 / @/unified rw - cgroup2 cgroup2 rw",
    )
    tree.group("/unified", {"cgroup.controllers": "\n"})
    return tree


def test_a_v2_cgroup(v2):
    folder = v2.group("/a/b", V2_FILES)
    sample = v2.source().sample("/a/b")

    assert v2.source().version == 2
    assert (sample.ts_ns, sample.path, sample.cgroup_id) == (42, "/a/b", folder.stat().st_ino)
    assert (sample.usage_bytes, sample.limit_bytes) == (65536, NO_LIMIT_BYTES)
    assert (sample.swap_usage_bytes, sample.swap_limit_bytes) == (4096, 8192)
    assert (sample.anon_bytes, sample.file_bytes, sample.shmem_bytes, sample.kernel_bytes) == (100, 200, 30, 50)
    assert (sample.failcnt, sample.oom, sample.oom_kill, sample.oom_group_kill) == (9, 3, 2, 1)
    assert (sample.oom_local, sample.oom_kill_local) == (1, 0)
    assert (sample.under_oom, sample.oom_kill_disable) == (None, None)


def test_a_v1_cgroup_beside_a_v2_hierarchy_without_memory(v1):
    v1.group("/memory/a", V1_FILES)
    sample = v1.source().sample("/a")

    assert v1.source().version == 1
    assert (sample.usage_bytes, sample.limit_bytes) == (65536, 9223372036854771712)
    assert sample.limit_bytes >= NO_LIMIT_BYTES
    assert (sample.swap_usage_bytes, sample.swap_limit_bytes) == (70000, 131072)
    assert (sample.anon_bytes, sample.file_bytes, sample.shmem_bytes, sample.kernel_bytes) == (20, 10, 30, 777)
    assert (sample.failcnt, sample.oom, sample.oom_local) == (19, None, None)
    assert (sample.oom_kill, sample.oom_kill_local, sample.under_oom, sample.oom_kill_disable) == (4, 4, 1, 0)


def test_what_kernel_memory_is_made_of_is_told_by_v2(v2):
    stat = (
        "anon 9\nslab 50\nslab_reclaimable 20\npagetables 7\nsec_pagetables 2\nkernel_stack 16\npercpu 3\nsock 4\n"
        "vmalloc 5\nfile_dirty 6\nfile_writeback 1\n"
    )
    v2.group("/a", V2_FILES | {"memory.stat": stat})
    sample = v2.source().sample("/a")

    assert (sample.slab_bytes, sample.slab_reclaimable_bytes, sample.sock_bytes) == (50, 20, 4)
    assert (sample.page_tables_bytes, sample.kernel_stack_bytes) == (9, 16)
    assert (sample.percpu_bytes, sample.vmalloc_bytes, sample.dirty_bytes) == (3, 5, 7)


def test_v1_tells_what_is_to_be_written_and_not_what_kernel_memory_is_made_of(v1):
    v1.group("/memory/a", V1_FILES | {"memory.stat": "total_cache 9\ntotal_dirty 2\ntotal_writeback 1\ndirty 1\n"})
    sample = v1.source().sample("/a")

    assert (sample.dirty_bytes, sample.slab_bytes, sample.page_tables_bytes) == (3, None, None)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_usage_alone_is_one_file(version, request):
    tree = request.getfixturevalue(version)
    tree.group("/a" if version == "v2" else "/memory/a", V2_FILES if version == "v2" else V1_FILES)

    assert (tree.source().usage("/a"), tree.source().usage("/none")) == (65536, None)


def test_what_a_kernel_does_not_have_is_unknown(v2):
    v2.group("/old", {"memory.current": "1\n", "memory.max": "2\n", "memory.events": "oom 3\noom_kill 1\n"})
    sample = v2.source().sample("/old")

    assert (sample.usage_bytes, sample.limit_bytes, sample.oom, sample.oom_kill) == (1, 2, 3, 1)
    assert (sample.oom_local, sample.oom_group_kill, sample.kernel_bytes, sample.swap_limit_bytes) == (None,) * 4


def test_a_cgroup_that_is_gone_is_none(v2):
    assert v2.source().sample("/none") is None
    assert v2.source().cgroup_id("/none") is None


def test_a_cgroup_that_is_removed_while_it_is_read_is_none(v2, monkeypatch):
    folder = v2.group("/a", V2_FILES)
    source, stats = v2.source(), []
    truth = os.stat

    def stat(path, *rest, **kwargs):
        stats.append(path)
        if stats.count(str(folder)) == 2:
            raise FileNotFoundError(path)
        return truth(path, *rest, **kwargs)

    monkeypatch.setattr(os, "stat", stat)

    assert source.sample("/a") is None


@pytest.mark.parametrize("path", ["/..", "/a/../../etc", "/../..", "relative", ""])
def test_a_path_outside_the_mount_is_never_followed(v2, path):
    assert v2.source().sample(path) is None
    assert v2.source().cgroup_id(path) is None


def test_a_chain_ends_at_the_top(v2):
    chain = v2.source().chain

    assert chain("/a/b/c") == ("/a/b/c", "/a/b", "/a", "/")
    assert chain("/") == ("/",)
    assert chain("//a/./b/") == ("/a/b", "/a", "/")


def test_a_mount_that_shows_a_part_of_the_hierarchy(tree):
    # A container of v1 without a cgroup namespace: paths are the host's, the mount begins at its own cgroup.
    tree.mounts("30 25 0:30 /docker/1f @/memory rw - cgroup cgroup rw,memory")
    tree.group("/memory/below", V1_FILES)
    source = tree.source()

    assert source.mount == MemoryMount(1, f"{tree.cgroup}/memory", "/docker/1f")
    assert source.sample("/docker/1f/below").usage_bytes == 65536
    assert source.chain("/docker/1f/below") == ("/docker/1f/below", "/docker/1f")
    assert source.sample("/docker/1f").path == "/docker/1f"
    tree.group("/memorya", V1_FILES)
    assert source.sample("/docker/2f") is None
    assert source.sample("/docker/1fa") is None
    assert source.chain("/docker/2f/x") == ("/docker/2f/x",)


def test_of_several_mounts_the_one_that_shows_most_is_taken(tree):
    whole, part = "30 25 0:30 / @/memory rw - cgroup cgroup rw,memory", "40 25 0:30 /a @/m rw - cgroup cgroup rw,memory"
    for mounts in ([whole, part], [part, whole]):
        tree.mounts(*mounts, "41 25 0:30 / @/run/container/memory rw - cgroup cgroup rw,memory")
        assert tree.source().mount == MemoryMount(1, f"{tree.cgroup}/memory")


def test_without_mountinfo_the_files_decide(tree):
    assert tree.source().version is None
    assert tree.source().sample("/") is None
    assert tree.source().memory_cgroup_of(1) is None
    tree.group("/unified", {"cgroup.controllers": "memory\n"})
    assert tree.source().mount == MemoryMount(2, f"{tree.cgroup}/unified")
    tree.group("/memory", V1_FILES)
    assert tree.source().mount == MemoryMount(1, f"{tree.cgroup}/memory")


def test_a_mount_point_with_a_space(tree):
    tree.mounts(r"30 25 0:30 / @/mem\040ory rw - cgroup cgroup rw,memory")
    tree.group("/mem ory/a", V1_FILES)

    assert tree.source().sample("/a").usage_bytes == 65536


def test_where_a_process_is(v1):
    v1.process(7, "4:memory:/a:b,memory:/c", "1:name=systemd:/other", "0::/unified")
    assert v1.source().memory_cgroup_of(7) == "/a:b,memory:/c"
    assert v1.source().memory_cgroup_of(8) is None


def test_where_a_process_is_on_v2(v2):
    v2.process(7, "12:cpuset:/x", "0::/user.slice/a:b")
    v2.process(8, "garbage", "", ":::", "0::no-slash")

    assert v2.source().memory_cgroup_of(7) == "/user.slice/a:b"
    assert v2.source().memory_cgroup_of(8) is None


def test_controllers_that_are_mounted_together(v1):
    v1.process(7, "5:cpu,memory:/joint")
    v1.process(8, "5:memoryless:/not", "6:memory:/yes")

    assert v1.source().memory_cgroup_of(7) == "/joint"
    assert v1.source().memory_cgroup_of(8) == "/yes"


def test_a_removed_cgroup_loses_its_mark_and_a_name_keeps_it(v2):
    v2.process(7, "0::/gone (deleted)")
    v2.process(8, "0::/odd (deleted)")
    v2.group("/odd (deleted)", V2_FILES)

    assert v2.source().memory_cgroup_of(7) == "/gone"
    assert v2.source().memory_cgroup_of(8) == "/odd (deleted)"


def test_a_name_that_is_no_text_is_found_and_shown(v2):
    path = os.fsdecode(b"/caf\xe9 \xff")
    v2.group(path, V2_FILES)
    v2.process(7, f"0::{path}")
    source = v2.source()

    assert source.memory_cgroup_of(7) == path
    assert source.sample(path).path == "/caf\\xe9 \\xff"
    assert source.sample(path).usage_bytes == 65536


def test_this_machine():
    source = CgroupSource()
    if source.version is None:
        pytest.skip("no memory controller here")
    path = source.memory_cgroup_of(os.getpid())

    assert path is not None
    assert source.chain(path)[-1] == source.mount.root
    samples = [source.sample(level) for level in source.chain(path)]
    assert all(samples)
    assert samples[0].cgroup_id == source.cgroup_id(path)
    assert samples[0].anon_bytes is not None
