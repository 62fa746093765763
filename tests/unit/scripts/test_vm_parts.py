# SPDX-License-Identifier: Apache-2.0
"""The rest of scripts/guest that needs no guest: packages by name, the lock, the digest, qemu's command line."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.guest import boot, payload, tools
from scripts.guest.boot import Machine, parameters, qemu_command
from scripts.guest.debian import by_version, find_mirror, host_settings, kernel_packages
from scripts.guest.errors import VmError
from scripts.guest.kernels import Kernel, cached, series
from scripts.guest.lab import Lab, Times
from scripts.guest.plan import Profile


def test_numbers_in_a_version_are_numbers():
    assert max(["6.1.0-9-amd64", "6.1.0-50-amd64", "6.1.0-10-amd64"], key=by_version) == "6.1.0-50-amd64"
    assert max(["6.12.9+deb13", "6.12.48+deb13"], key=by_version) == "6.12.48+deb13"


@pytest.mark.parametrize(
    ("names", "version", "packages"),
    [
        (
            {"linux-image-6.1.0-9-amd64-unsigned", "linux-image-6.1.0-50-amd64-unsigned", "linux-image-6.1.0-50-amd64"},
            "6.1.0-50-amd64",
            ["linux-image-6.1.0-50-amd64-unsigned"],
        ),
        (
            {"linux-image-5.10.0-32-amd64-unsigned", "linux-image-5.10.0-33-cloud-amd64-unsigned",
             "linux-image-5.10.0-34-rt-amd64-unsigned", "linux-image-5.10.0-35-686-unsigned",
             "linux-image-5.10.0-36-amd64-dbg", "linux-image-amd64"},
            "5.10.0-32-amd64",
            ["linux-image-5.10.0-32-amd64-unsigned"],
        ),
        (
            {"linux-binary-unsigned-7.2.13+deb14-amd64", "linux-modules-7.2.13+deb14-amd64",
             "linux-binary-unsigned-7.1.2+deb14-amd64", "linux-image-7.2.13+deb14-amd64"},
            "7.2.13+deb14-amd64",
            ["linux-binary-unsigned-7.2.13+deb14-amd64", "linux-modules-7.2.13+deb14-amd64"],
        ),
    ],
    ids=["by number", "flavours are left out", "split packages"],
)  # fmt: skip
def test_the_newest_kernel_of_a_suite_is_found_by_name(names, version, packages):
    assert kernel_packages(names) == (version, packages)


def test_a_suite_without_a_kernel_says_so():
    with pytest.raises(VmError, match="no kernel package"):
        kernel_packages({"bash", "linux-image-amd64"})


def test_the_mirror_is_the_one_of_the_hosts_apt():
    targets = (
        "Node Source|main|nodistro|https://node.example/x/\n"
        "Debian|main|bookworm-security|http://mirror.example/debian-security/\n"
        "Debian|contrib|bookworm|http://contrib.example/debian/\n"
        "Debian|main|bookworm|http://mirror.example/debian/\n"
    )

    assert find_mirror(targets) == "http://mirror.example/debian"


def test_roots_are_fetched_as_the_hosts_apt_fetches():
    dump = (
        'Acquire::cdrom::mount "/media/cdrom/";\n'
        'Acquire::Check-Valid-Until "false";\n'
        'Acquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::Languages:: "none";\n'
    )

    assert host_settings(dump) == dump.splitlines()[1:3]


@pytest.mark.parametrize("targets", ["", "\n", "Ubuntu|main|noble|http://mirror.example/ubuntu/\n", "Debian"])
def test_a_host_without_a_debian_mirror_is_told_what_to_name(targets):
    with pytest.raises(VmError, match="--mirror"):
        find_mirror(targets)


def test_a_kernel_is_called_by_its_number_or_its_suite():
    assert series("6.12") == series("trixie")
    assert series("5.10").beside == "bookworm"
    with pytest.raises(VmError, match=r"no kernel is called 4\.9: there are 5\.10, "):
        series("4.9")


LOCK = """\
# made by a tool
click==8.5.1 \\
    --hash=sha256:aa
    # via import-linter
import-linter==2.15 ; python_full_version < '3.11' \\
    --hash=sha256:bb
    # via oomtrace (pyproject.toml:dev)
mdurl==0.1.2 \\
    --hash=sha256:cc
    # via markdown-it-py
markdown-it-py==4.3.0 \\
    --hash=sha256:dd
    # via rich
pygments==2.21.0 \\
    --hash=sha256:ee
    # via
    #   pytest
    #   rich
rich==15.0.0 ; python_full_version < '3.11' \\
    --hash=sha256:f0
    # via
    #   import-linter
    #   oomtrace (pyproject.toml)
rich==15.1.0 ; python_full_version >= '3.11' \\
    --hash=sha256:f1
    # via
    #   import-linter
    #   oomtrace (pyproject.toml)
"""


def test_the_guest_gets_what_the_project_needs_and_nothing_of_its_development():
    kept = payload.runtime_lock(LOCK)

    assert [line.split("==")[0] for line in kept.splitlines() if "==" in line] == [
        "mdurl", "markdown-it-py", "pygments", "rich", "rich",
    ]  # fmt: skip
    assert "--hash=sha256:f1" in kept
    assert "sha256:aa" not in kept


def test_the_lock_of_this_checkout_names_all_that_the_resident_needs():
    kept = payload.runtime_lock((payload.ROOT / "scripts" / "requirements.lock").read_text())
    names = {line.split("==")[0] for line in kept.splitlines() if "==" in line}

    assert {"msgspec", "psutil", "rich", "shtab"} <= names
    assert not names & {"mypy", "pytest", "ruff", "hatchling"}


@pytest.fixture
def checkout(tmp_path):
    """A checkout of four files."""
    for name in ("tracer/a.py", "bpf/oom.c", "scripts/guest/inside/drive.py", "scripts/requirements.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["tracer/a.py", "bpf/oom.c", "scripts/guest/inside/drive.py", "scripts/requirements.lock"]
)
def test_results_are_of_the_checkout_that_made_them(checkout, name):
    before = payload.digest(checkout)
    assert payload.digest(checkout) == before
    (checkout / name).write_text("changed")

    assert payload.digest(checkout) != before


def test_what_decides_nothing_does_not_change_the_digest(checkout):
    before = payload.digest(checkout)
    (checkout / "tracer" / "__pycache__").mkdir()
    (checkout / "tracer" / "__pycache__" / "a.pyc").write_bytes(b"1")
    (checkout / "README.md").write_text("text")

    assert payload.digest(checkout) == before


def machine(**changes) -> Machine:
    kernel = Kernel("6.1.0-50-amd64", "/cache/6.1")
    parts = (
        kernel,
        "tcg",
        Path("/roots/a,b.ext4"),
        Path("/lab/payload"),
        Path("/lab/results"),
        Path("/lab/console"),
    )
    names = ("kernel", "accel", "root", "payload", "results", "console")
    return Machine(**{**dict(zip(names, parts, strict=True)), **changes})


def test_a_guest_is_known_by_its_command_line():
    words = parameters(machine(append=("lockdown=confidentiality",))).split()

    assert "oomtrace.guest=1" in words
    assert words[-1] == "lockdown=confidentiality"
    assert "oomtrace.systemd" not in words
    assert "oomtrace.cgroup=v2" in words


def test_a_machine_has_what_its_profile_says():
    command = qemu_command(machine(profile=Profile("v1", swap=True, numa=True, systemd=True), swap=Path("/lab/swap")))
    text = " ".join(command)

    assert "oomtrace.cgroup=v1" in text
    assert "oomtrace.systemd" in text
    assert "oomtrace.lockdown" not in text
    assert "oomtrace.lockdown" in " ".join(qemu_command(machine(profile=Profile(lockdown=True))))
    assert "serial=swap" in text
    assert command.count("-numa") == 2
    assert "serial=swap" not in " ".join(qemu_command(machine()))


def test_what_a_guest_writes_to_its_roots_goes_with_it():
    drives = [word for word in qemu_command(machine(older=Path("/roots/old"))) if word.startswith("file=/")]

    assert ["snapshot=on" in word or "readonly=on" in word for word in drives] == [True] * 3
    assert drives[0].startswith("file=/roots/a,,b.ext4,")  # a comma would end the name


def test_a_qemu_does_not_outlive_what_started_it(tmp_path):
    with pytest.raises(RuntimeError), boot.running(["sleep", "1000"], tmp_path) as child:  # noqa: PT012
        assert child.poll() is None
        raise RuntimeError

    assert child.poll() is not None


def test_a_guest_that_says_nothing_is_given_up(tmp_path):
    with boot.running(["sleep", "1000"], tmp_path) as child:
        assert boot.watch(child, lambda: -1.0) is False


def test_a_guest_that_powers_off_has_ended_well(tmp_path):
    looks = []
    with boot.running(["true"], tmp_path) as child:
        assert boot.watch(child, lambda: looks.append(1) or 60.0) is True

    assert looks


def test_qemu_that_is_not_there_is_told_with_how_to_get_it(tmp_path):
    with pytest.raises(VmError, match="--setup"), boot.running(["/no/such/qemu"], tmp_path):
        pass


def test_a_program_that_fails_is_told_by_its_last_line():
    with pytest.raises(VmError, match=r"^sh -c .* failed: E: no such suite$"):
        tools.call(("sh", "-c", "echo first >&2; echo 'E: no such suite' >&2; echo 'E: it failed' >&2; exit 3", "sh"))
    with pytest.raises(VmError, match="--setup"):
        tools.call(("/no/such/tool",))


def test_a_cache_without_a_finished_kernel_has_none(tmp_path):
    assert cached(tmp_path) is None
    (tmp_path / "kernel.json").write_text("{}")

    assert cached(tmp_path) is None


def test_everything_is_missing_from_an_empty_cache(tmp_path):
    assert Lab(tmp_path, None).missing([series("5.10"), series("6.1")]) == [
        "kernel 5.10", "kernel 6.1", "root bullseye", "root bookworm",
    ]  # fmt: skip


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path):
    (tmp_path / "work-old").mkdir()
    with Lab(tmp_path, None).held() as work:
        assert not (tmp_path / "work-old").exists()
        assert work.is_dir()

    assert not work.exists()


def test_a_cache_is_one_runs_at_a_time(tmp_path):
    program = (
        "import sys; from pathlib import Path; from scripts.guest.lab import Lab\n"
        "with Lab(Path(sys.argv[1]), None).held(): print('held', flush=True)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with Lab(tmp_path, None).held():
        second = subprocess.Popen(command, cwd=payload.ROOT, stdout=subprocess.PIPE, text=True)
        assert second.stdout.readline().startswith("vm: waiting for another")
        assert second.poll() is None

    assert second.communicate(timeout=60)[0] == "held\n"


def test_times_are_kept_for_the_next_estimate(tmp_path):
    Times(tmp_path / "times").keep("6.1/tcg/boot", 20)
    Times(tmp_path / "times").keep("6.1/tcg/boot", 40)

    assert Times(tmp_path / "times").seconds == {"6.1/tcg/boot": 30}
    (tmp_path / "times").write_text("[1]")
    assert Times(tmp_path / "times").seconds == {}


def test_the_script_says_what_it_lacks_before_it_begins(tmp_path):
    command = [sys.executable, payload.ROOT / "scripts" / "vm", "selftest", "--cache", tmp_path / "cache"]
    env = {**os.environ, "PATH": str(tmp_path)}
    since_s = time.monotonic()
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode in (0, 3), done.stderr
    assert done.returncode == 0 or "--setup" in done.stderr or "scripts/setup" in done.stderr
    assert time.monotonic() - since_s < 60
