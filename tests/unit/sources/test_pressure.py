# SPDX-License-Identifier: Apache-2.0
import pytest

from tracer.sources.pressure import read_pressure, read_vmstat

MEMINFO = "MemTotal: 100 kB\nMemFree: 20 kB\nMemAvailable: 50 kB\nShmem: 3 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
PSI = "some avg10=1.50 avg60=0.10 avg300=0.00 total=12345\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=99\n"


def test_the_machine_now(tmp_path):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "pressure" / "memory").write_text(PSI)
    sample = read_pressure(str(tmp_path), clock=lambda: 5)

    assert (sample.ts_ns, sample.mem_total_bytes, sample.mem_free_bytes, sample.mem_available_bytes) == (
        5, 102400, 20480, 51200,
    )  # fmt: skip
    assert (sample.shmem_bytes, sample.swap_total_bytes, sample.swap_free_bytes) == (3072, 0, 0)
    assert (sample.psi_some_avg10, sample.psi_full_avg10) == (1.5, 0.25)
    assert (sample.psi_some_total_us, sample.psi_full_total_us) == (12345, 99)


def test_what_the_machines_memory_is_used_for(tmp_path):
    (tmp_path / "meminfo").write_text(
        "Buffers: 1 kB\nCached: 2 kB\nAnonPages: 3 kB\nSlab: 4 kB\nKernelStack: 5 kB\nPageTables: 6 kB\n"
        "SecPageTables: 1 kB\nVmallocTotal: 9 kB\n"
        "VmallocUsed: 8 kB\nPercpu: 9 kB\nHugePages_Free: 7\nHugetlb: 10 kB\n"
    )
    sample = read_pressure(str(tmp_path))

    assert (sample.buffers_bytes, sample.cached_bytes, sample.anon_bytes, sample.slab_bytes) == (1024, 2048, 3072, 4096)
    assert (sample.kernel_stack_bytes, sample.page_tables_bytes) == (5120, 7168)
    assert (sample.vmalloc_bytes, sample.percpu_bytes, sample.hugetlb_bytes) == (8192, 9216, 10240)


def test_what_an_older_kernel_does_not_count_is_unknown_and_not_0(tmp_path):
    (tmp_path / "meminfo").write_text("PageTables: 6 kB\nAnonPages: 3 kB\n")
    sample = read_pressure(str(tmp_path))

    assert (sample.page_tables_bytes, sample.percpu_bytes, sample.hugetlb_bytes) == (6144, None, None)


PROMISED = "CommitLimit: 100 kB\nCommitted_AS: 90 kB\n"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("0\n", (0, None, None)), ("1\n", (1, None, None)), ("2\n", (2, 102400, 92160)), ("x", (None, None, None))],
)
def test_what_is_promised_counts_only_where_that_is_bounded(tmp_path, mode, expected):
    (tmp_path / "sys" / "vm").mkdir(parents=True)
    (tmp_path / "sys" / "vm" / "overcommit_memory").write_text(mode)
    (tmp_path / "meminfo").write_text(PROMISED)
    sample = read_pressure(str(tmp_path))

    assert (sample.overcommit, sample.commit_limit_bytes, sample.committed_bytes) == expected


def test_a_kernel_without_psi_leaves_it_unknown(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\n")
    sample = read_pressure(str(tmp_path))

    assert (sample.psi_some_avg10, sample.psi_full_total_us, sample.mem_available_bytes) == (None, None, None)
    assert sample.mem_total_bytes == 102400


def test_on_old_kernels_the_machine_has_no_full_line_or_no_counter(tmp_path):
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text(PSI.splitlines()[0] + "\n")
    (tmp_path / "vmstat").write_text("nr_free_pages 5\n")

    assert read_pressure(str(tmp_path)).psi_full_avg10 is None
    assert read_vmstat(str(tmp_path)) is None
    assert read_vmstat(str(tmp_path / "none")) is None


def test_the_counter_of_kills(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 5\noom_kill 7\n")

    assert read_vmstat(str(tmp_path)).oom_kill == 7


def test_this_machine():
    sample = read_pressure()

    assert sample.mem_total_bytes > sample.mem_free_bytes > 0
