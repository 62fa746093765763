# SPDX-License-Identifier: Apache-2.0
"""The line to type for each distribution, from its own os-release, however that is written."""

import pytest

from tracer.doctor.remedies import install_bcc, os_release

RELEASES = {
    "debian": ('ID=debian\nVERSION_ID="12"', "apt install python3-bpfcc"),
    "ubuntu": ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"', "apt install python3-bpfcc"),
    "mint": ('ID=linuxmint\nID_LIKE="ubuntu debian"', "apt install python3-bpfcc"),
    "fedora": ("ID=fedora\nVERSION_ID=41", "dnf install python3-bcc"),
    "rhel": ('ID="rhel"\nID_LIKE="fedora"', "dnf install python3-bcc"),
    "alma": ('ID="almalinux"\nID_LIKE="rhel centos fedora"', "dnf install python3-bcc"),
    "rocky": ('ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf install python3-bcc"),
    "arch": ("ID=arch\nBUILD_ID=rolling", "pacman -S python-bcc"),
    "manjaro": ("ID=manjaro\nID_LIKE=arch", "pacman -S python-bcc"),
    "tumbleweed": ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"', "zypper install python3-bcc"),
    "leap": ('ID="opensuse-leap"\nID_LIKE="suse opensuse"', "zypper install python3-bcc"),
    "amazon2023": ('ID="amzn"\nVERSION_ID="2023"\nID_LIKE="fedora"', "dnf install python3-bcc"),
    "amazon2": ('ID="amzn"\nVERSION_ID="2"\nID_LIKE="centos rhel fedora"', "amazon-linux-extras install BCC"),
    "alpine": ("ID=alpine", "apk add py3-bcc"),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_package_is_the_distributions_own(name):
    text, command = RELEASES[name]

    assert install_bcc(os_release(text), root=True) == command
    assert install_bcc(os_release(text), root=False) == f"sudo {command}"


def test_nixos_is_told_why_it_cannot_be_installed():
    assert "container" in install_bcc(os_release('ID=nixos\nID_LIKE=""'), root=True)


@pytest.mark.parametrize("text", [None, "", "ID=", "ID=plan9", "nonsense\n===\n"])
def test_an_unknown_distribution_is_told_what_must_work(text):
    assert "/usr/bin/python3 -I -c 'import bcc'" in install_bcc(os_release(text), root=True)


@pytest.mark.parametrize(
    "text, value",
    [
        ('PRETTY_NAME="A \\"quoted\\" one"', 'A "quoted" one'),
        ("PRETTY_NAME='single'", "single"),
        ("PRETTY_NAME=plain\nPRETTY_NAME=second", "plain"),
        ("PRETTY_NAME=$(reboot)", "$(reboot)"),
        ('PRETTY_NAME="', '"'),
        ("PRETTY_NAME=\x1b[2J", "\x1b[2J"),
    ],
)
def test_an_assignment_is_read_and_never_run(text, value):
    assert os_release(text)["PRETTY_NAME"] == value
