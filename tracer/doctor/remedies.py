# SPDX-License-Identifier: Apache-2.0
"""What to type: the package of bcc by distribution, and rights for a container. Says; installs nothing."""

import re
from collections.abc import Mapping

BCC_COMMANDS: Mapping[str, str] = {
    "debian": "apt install python3-bpfcc",
    "ubuntu": "apt install python3-bpfcc",
    "fedora": "dnf install python3-bcc",
    "rhel": "dnf install python3-bcc",
    "amzn": "dnf install python3-bcc",
    "arch": "pacman -S python-bcc",
    "suse": "zypper install python3-bcc",
    "opensuse": "zypper install python3-bcc",
    "alpine": "apk add py3-bcc",
}
"""By ID or ID_LIKE of /etc/os-release."""

_NIXOS = (
    "bcc is in no /usr/bin/python3 on NixOS, and oomtrace looks nowhere else: run it in a container of another "
    "distribution with --privileged --pid=host"
)
_ELSEWHERE = "install your distribution's bcc for Python, so that: /usr/bin/python3 -I -c 'import bcc' works"
CONTAINER_RIGHTS = (
    "docker run --privileged --pid=host ..., or at least --cap-add BPF --cap-add PERFMON --cap-add SYSLOG "
    "--cap-add SYS_PTRACE (Kubernetes: securityContext.capabilities)"
)
_LINE = re.compile(r"([A-Z_]+)=(.*)")


def os_release(text: str | None) -> dict[str, str]:
    """The assignments of /etc/os-release; nothing in it is run or expanded."""
    found: dict[str, str] = {}
    for line in (text or "").split("\n"):
        match = _LINE.fullmatch(line.strip())
        if match is not None:
            value = match[2]
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            found.setdefault(match[1], re.sub(r"\\(.)", r"\1", value))
    return found


def install_bcc(system: Mapping[str, str], *, root: bool) -> str:
    """How to get bcc on this distribution."""
    names = [system.get("ID", ""), *system.get("ID_LIKE", "").split()]
    if "nixos" in names:
        return _NIXOS
    if names[0] == "amzn" and system.get("VERSION_ID", "").startswith("2") and len(system.get("VERSION_ID", "")) == 1:
        return _with_rights("amazon-linux-extras install BCC", root=root)
    for name in names:
        command = BCC_COMMANDS.get(name) or BCC_COMMANDS.get(name.partition("-")[0])
        if command is not None:
            return _with_rights(command, root=root)
    return _ELSEWHERE


def _with_rights(command: str, *, root: bool) -> str:
    return command if root else f"sudo {command}"
