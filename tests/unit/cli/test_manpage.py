# SPDX-License-Identifier: Apache-2.0
"""The man page has all that the parser knows, and roff has nothing to say against it."""

import shutil
import subprocess

import pytest

from tracer.cli import COMMANDS, main
from tracer.cli.command import examples_of
from tracer.cli.manpage import page
from tracer.cli.parser import EXIT_CODES, Program, options_of


@pytest.fixture
def roff(capsys):
    assert main(["man"]) == 0
    return capsys.readouterr().out


def shown(roff):
    """As a terminal shows it, without line ends."""
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    # Wide and in ASCII: no word is broken, no hyphen changed. -ww: all warnings.
    command = ["groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=200n", "-rHY=0"]
    made = subprocess.run(command, input=roff, capture_output=True, text=True, timeout=60, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    return " ".join(made.stdout.split())


def test_it_holds_every_command_option_example_and_exit_code(roff):
    text = shown(roff)
    program = Program(COMMANDS)
    for parser in program.children.choices.values():
        for option in options_of(parser):
            assert option in text or option in {"-h", "--help"}
    for command in COMMANDS:
        for what, line in examples_of(command):
            assert f"{what}: {line}" in text
    assert all(meaning in text for _, meaning in EXIT_CODES)
    assert "--ready-file" not in text


class Hostile:
    r"""'quoted' .TH first, with a back\slash.

    .SH is no section, 'nor is this a request.

      .laid out
      'by hand' -- so
    """

    name = "hostile"
    examples = (("It's", r".oomtrace 'x' \n"),)

    def prepare_parser(self, parser):
        parser.add_argument("--dot", metavar=".D", help=".TH 50 %% of 'it'")

    def run(self, _):
        return 0


def test_what_roff_would_take_for_a_request_is_text():
    text = shown(page(Program((Hostile(),))))

    assert r"'quoted' .TH first, with a back\slash." in text
    assert ".SH is no section, 'nor is this a request." in text
    assert ".laid out 'by hand' -- so" in text
    assert r"It's: .oomtrace 'x' \n" in text
    assert "--dot .D .TH 50 % of 'it'" in text


def test_man_itself_takes_it_without_a_warning(roff, tmp_path):
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    (tmp_path / "oomtrace.1").write_text(roff)
    command = ["man", "--warnings", "-l", "-P", "cat", str(tmp_path / "oomtrace.1")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("OOMTRACE(1)")
