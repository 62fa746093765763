# SPDX-License-Identifier: Apache-2.0
"""All commands, in the order of the help. Importing them imports what stays beside a job."""

from tracer.cli.attach import AttachCommand
from tracer.cli.command import Command
from tracer.cli.compare import CompareCommand
from tracer.cli.doctor import DoctorCommand
from tracer.cli.explain import ExplainCommand
from tracer.cli.export import ExportCommand
from tracer.cli.helping import CompletionCommand, HelpCommand, ManCommand
from tracer.cli.report import ReportCommand
from tracer.cli.repro import ReproCommand
from tracer.cli.run import RunCommand
from tracer.cli.selftest import SelftestCommand
from tracer.cli.stop import StopCommand
from tracer.cli.verify import VerifyCommand

COMMANDS: tuple[Command, ...] = (
    RunCommand(),
    AttachCommand(),
    StopCommand(),
    ReportCommand(),
    CompareCommand(),
    ExportCommand(),
    VerifyCommand(),
    ExplainCommand(),
    DoctorCommand(),
    SelftestCommand(),
    ReproCommand(),
    HelpCommand(),
    CompletionCommand(),
    ManCommand(),
)
