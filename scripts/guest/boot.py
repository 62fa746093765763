# SPDX-License-Identifier: Apache-2.0
"""One guest: qemu's command line, its life, and the end of it, whichever way that comes."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts.guest.errors import VmError
from scripts.guest.kernels import Kernel
from scripts.guest.plan import Profile

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 1024
SWAP_MIB = 96
CPUS = 2
START_S = {"kvm": 120.0, "tcg": 600.0}
"""From power to the first scenario; 20 s where nothing else runs."""
_PROBE_S = 25.0
_POLL_S = 0.2
_WORD = b"oomtrace-guest: started"


@dataclass(frozen=True)
class Machine:
    """What a guest is made of."""

    kernel: Kernel
    accel: str
    root: Path
    payload: Path
    results: Path
    """A folder that the guest writes to."""
    console: Path
    profile: Profile = field(default_factory=Profile)
    older: Path | None = None
    """The root whose /usr/bin/python3 loads the programs, where that is not `root`."""
    swap: Path | None = None
    append: tuple[str, ...] = ()


def parameters(machine: Machine) -> str:
    """The kernel's command line."""
    profile = machine.profile
    words = [
        "oomtrace.guest=1", "console=ttyS0", "quiet", "loglevel=1", "panic=-1", "mitigations=off", "psi=1",
        "net.ifnames=0", f"oomtrace.cgroup={profile.cgroup}",
    ]  # fmt: skip
    if profile.cgroup == "v1":
        words += ["systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", "swapaccount=1"]
    if profile.systemd:
        words.append("oomtrace.systemd")
    if profile.lockdown:
        words.append("oomtrace.lockdown")
    if machine.older is not None:
        words.append("oomtrace.older")
    return " ".join([*words, *machine.append])


def qemu_command(machine: Machine) -> list[str]:
    """All of it: what is written to the disks goes with the guest."""
    numa = []
    for node in range(2) if machine.profile.numa else ():
        memory = f"memory-backend-ram,id=node{node},size={MEMORY_MIB // 2}M"
        numa += ["-object", memory, "-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
    command = [
        QEMU, *_processor(machine.accel), "-smp", str(CPUS), "-m", str(MEMORY_MIB), *numa,
        "-display", "none", "-monitor", "none", "-nodefaults", "-no-user-config", "-no-reboot",
        "-serial", f"file:{machine.console}",
        "-kernel", str(machine.kernel.image), "-initrd", str(machine.kernel.initrd), "-append", parameters(machine),
        *_disk("root", machine.root, "snapshot=on"), *_disk("payload", machine.payload, "readonly=on"),
    ]  # fmt: skip
    if machine.older is not None:
        command += _disk("older", machine.older, "snapshot=on")
    if machine.swap is not None:
        command += _disk("swap", machine.swap, "cache=unsafe")
    command += _share("modules", machine.kernel.modules, ",readonly=on")
    return command + _share("results", machine.results, "")


def _processor(accel: str) -> tuple[str, ...]:
    if accel == "kvm":
        return ("-M", "q35", "-accel", "kvm", "-cpu", "host")
    return ("-M", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max")


def _disk(serial: str, image: Path, option: str) -> list[str]:
    drive = f"file={_quoted(image)},format=raw,if=none,id={serial},{option}"
    return ["-drive", drive, "-device", f"virtio-blk-pci,drive={serial},serial={serial}"]


def _share(tag: str, folder: Path, option: str) -> list[str]:
    return ["-virtfs", f"local,path={_quoted(folder)},mount_tag={tag},security_model=none{option}"]


def _quoted(path: Path) -> str:
    return str(path).replace(",", ",,")  # how qemu's options hold a comma


@contextlib.contextmanager
def running(command: list[str], temporary: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A qemu that does not outlive the block; its snapshots lie in a folder of ours."""
    with (temporary / "qemu.log").open("wb") as log:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "TMPDIR": str(temporary)},
                start_new_session=True,  # an interrupt at the terminal is ours to handle
            )
        except OSError as error:
            raise VmError(f"cannot run {QEMU}: {error.strerror}; scripts/vm --setup installs it") from error
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def kvm_works(kernel: Kernel, work: Path) -> bool:
    """Whether a guest really starts under KVM here: that /dev/kvm can be opened says little inside another VM."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    console = work / "kvm-console"
    command = [
        QEMU, *_processor("kvm"), "-m", "256", "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot",
        "-serial", f"file:{console}", "-kernel", str(kernel.image), "-initrd", str(kernel.initrd),
        "-append", "console=ttyS0 quiet panic=-1 oomtrace.only_start",
    ]  # fmt: skip
    with running(command, work) as child:
        deadline_s = time.monotonic() + _PROBE_S
        while time.monotonic() < deadline_s:
            ended = child.poll() is not None
            if console.exists() and _WORD in console.read_bytes():
                return True
            if ended or b"KVM internal error" in (work / "qemu.log").read_bytes():
                return False
            time.sleep(_POLL_S)
    return False


def watch(child: "subprocess.Popen[bytes]", look: Callable[[], float | None]) -> bool:
    """Until the guest powers off (true), or `look`, called often, says that its time has run out (false).

    Args:
        child: qemu.
        look: seconds that are left; `None`: it has finished, and only has to power off.
    """
    off_by_s: float | None = None
    while child.poll() is None:
        left_s = look()
        now_s = time.monotonic()
        if left_s is None:
            off_by_s = off_by_s or now_s + 30
        if (left_s is not None and left_s < 0) or (off_by_s is not None and now_s > off_by_s):
            look()
            return left_s is None
        time.sleep(_POLL_S)
    look()
    return True
