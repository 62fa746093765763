# SPDX-License-Identifier: Apache-2.0
"""The help teaches: it is made from the commands, its examples are what the parser takes, and the README agrees."""

import argparse
import re
import shlex

import pytest

from tests.architecture.checkout import ROOT
from tracer.cli import COMMANDS, main
from tracer.cli.command import examples_of, takes_root
from tracer.cli.parser import EXIT_CODES, FIRST_STEPS, Program, astray
from tracer.errors import UsageError

AN_EXAMPLE = re.compile(r"\boomtrace [^|>)\"]*")
EXAMPLES = [line for command in COMMANDS for _, line in examples_of(command)]
STEPS = [line for name, line, _ in FIRST_STEPS if name in {command.name for command in COMMANDS}]


class Sleep:
    """Do nothing for a while.

    It takes long.

      as much as this: laid out by hand, and left so
    """

    name = "sleep"
    examples = (("A while", "sudo oomtrace sleep --long"),)

    def prepare_parser(self, parser):
        parser.add_argument("--long", action="store_true", help="100 %% more")

    def run(self, _):
        return 0


class Plain:
    """No more than it needs."""

    name = "plain"

    def prepare_parser(self, parser):
        pass

    def run(self, _):
        return 0


@pytest.mark.parametrize("line", dict.fromkeys([*EXAMPLES, *STEPS]))
def test_an_example_can_be_typed_as_it_stands(line):
    [found] = AN_EXAMPLE.findall(line)
    args, unknown = Program(COMMANDS).parse_known_args(shlex.split(found)[1:])

    assert unknown == []
    assert args.its_command in COMMANDS


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_examples_and_a_first_line_that_is_a_sentence(command):
    assert examples_of(command)
    assert (command.__doc__ or "").partition("\n")[0].endswith(".")


def test_the_list_names_every_command_and_who_takes_root(capsys):
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command.name} +\w", out, re.MULTILINE), command.name
    root = ", ".join(command.name for command in COMMANDS if takes_root(command))
    assert f"Take root, to watch the kernel: {root}." in " ".join(out.split())
    assert {"run", "attach", "stop"} <= set(root.split(", "))
    assert not {"report", "compare", "export", "explain"} & set(root.split(", "))


def test_what_only_reads_files_is_not_said_to_take_root_whatever_its_examples_show():
    takers = {command.name for command in COMMANDS if takes_root(command)}

    assert takers == {"run", "attach", "stop", "doctor", "selftest", "repro"}
    compare = next(command for command in COMMANDS if command.name == "compare")
    assert any(line.startswith("sudo ") for _, line in examples_of(compare))  # else this shows nothing


def test_it_says_what_to_begin_with_and_which_exit_codes_there_are(capsys):
    main(["--help"])

    out = capsys.readouterr().out
    assert "sudo oomtrace run -- python train.py" in out
    assert all(meaning in out for _, meaning in EXIT_CODES)


def test_the_readme_has_the_same_exit_codes_and_may_say_more_of_each():
    readme = (ROOT / "README.md").read_text()
    table = dict(re.findall(r"^\| `?(\w+)`? \| (.*?) \|$", readme.partition("## Exit codes")[2], re.MULTILINE))

    told = {code: meaning for code, meaning in EXIT_CODES if code.isdigit()}
    assert {code: table[code].partition(": ")[0] for code in told} == told
    assert "run" in table


def test_a_command_alone_without_any_word_shows_the_help_and_is_wrong_usage(capsys):
    assert main([]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: oomtrace COMMAND")


@pytest.mark.parametrize("asked", [["run", "--help"], ["run", "-h"], ["help", "run"]], ids=" ".join)
def test_each_way_of_asking_shows_the_same(asked, capsys):
    assert main(asked) == 0

    out = capsys.readouterr().out
    assert "limits and owner of the job:" in out
    assert "examples:\n" in out
    assert "    sudo oomtrace run --memory-max 64G -- python train.py\n" in out


def test_a_command_that_brings_examples_has_them_shown_and_one_without_needs_none():
    program = Program((Sleep(), Plain()))
    sleep, plain = program.children.choices["sleep"].format_help(), program.children.choices["plain"].format_help()

    assert sleep.endswith("examples:\n  A while:\n    sudo oomtrace sleep --long\n")
    assert "\n  as much as this: laid out by hand, and left so\n" in sleep
    assert "100 % more" in sleep
    assert "examples" not in plain
    assert "Take root, to watch the kernel: sleep." in program.format_help()


def test_an_option_is_written_in_full():
    with pytest.raises(UsageError, match="required"):
        Program(COMMANDS).parse_known_args(["report", "--js"])
    assert Program(COMMANDS).parse_known_args(["report", "--js", "x"])[1] == ["--js"]


@pytest.mark.parametrize(
    "words, lost",
    [
        (["run", "python", "x.py", "--memory-max", "4G"], "--memory-max"),
        (["run", "python", "x.py", "--memory-max=4G"], "--memory-max"),
        (["run", "--", "python", "x.py", "--memory-max=4G"], None),
        (["run", "--memory-max=4G", "python", "x.py", "--lr", "3"], None),
        (["run", "python", "x.py", "--help"], None),
        (["run", "python", "x.py", "--ready-file", "x"], None),
    ],
)
def test_an_option_of_ours_behind_the_job_is_told(words, lost):
    program = Program(COMMANDS)
    args: argparse.Namespace = program.parse_args(words)
    job = [word for word in args.command if word != "--"]
    said = astray(words, job, program.children.choices["run"])

    assert (said is None) == (lost is None)
    assert lost is None or said.startswith(f"{lost} stands behind python")
