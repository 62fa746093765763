# SPDX-License-Identifier: Apache-2.0
"""The completion, asked as the shells ask it."""

import shutil
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.cli import COMMANDS, main
from tracer.cli.helping import SHELLS

ASKED = """
source "$1"; shift
[[ $(complete -p oomtrace) == *"-F "* ]] || exit 1
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_oomtrace
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path, capsys):
    def written(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / f"completion.{shell}"
        path.write_text(capsys.readouterr().out)
        return path

    return written


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "here"
    (folder / "deeper").mkdir(parents=True)
    for name in ("a.oomtrace", "train.py"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    "words, wanted",
    [
        (["r"], {"run", "report", "repro"}),
        (["report", ""], {"a.oomtrace", "deeper"}),
        (["report", "--js"], {"--json"}),
        (["verify", ""], {"a.oomtrace", "deeper"}),
        (["v"], {"verify"}),
        (["run", "--memory-max", "64G", "--memo"], {"--memory-max"}),
        (["run", "--report", "tr"], {"train.py"}),
        (["run", "--ready"], {""}),
        (["run", "--", "python3", "tr"], {"train.py"}),
        (["run", "--", "python3", "--memo"], {"a.oomtrace", "deeper", "train.py"}),
        (["completion", ""], set(SHELLS)),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bash_completes(script, folder, words, wanted):
    command = ["bash", "--norc", "-c", ASKED, "_", str(script("bash")), "oomtrace", *words]
    asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=True)

    assert set(asked.stdout.rstrip("\n").split("\n")) == wanted
    assert asked.stderr == ""


@pytest.mark.parametrize("words", [["run", "basenam"], ["run", "--", "basenam"]], ids=" ".join)
def test_bash_completes_programs_as_the_job(script, folder, words):
    command = ["bash", "--norc", "-c", ASKED, "_", str(script("bash")), "oomtrace", *words]
    asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=True)

    assert "basename" in asked.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_finds_its_script_well_formed_and_every_command_in_it(script, shell):
    text = script(shell).read_text()

    assert all(command.name in text for command in COMMANDS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    checked = subprocess.run([shell, "-n", script(shell)], capture_output=True, text=True, timeout=30, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_what_makes_it_is_loaded_for_it_alone():
    program = (
        "import sys; from tracer.cli import main; main(['--help'])\n"
        "assert not {'shtab', 'difflib', 'tracer.cli.manpage', 'tracer.cli.completion'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
