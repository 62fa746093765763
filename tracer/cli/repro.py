# SPDX-License-Identifier: Apache-2.0
"""`oomtrace repro`: one way to be killed, played for real, with the verdict that it must get."""

import argparse
import os
import signal
import sys
import textwrap
from typing import TYPE_CHECKING

from tracer.cli.console import shown, write
from tracer.errors import PermissionDenied, UsageError

if TYPE_CHECKING:
    from tracer.repro.scenario import Result

EXIT_CODES = {"pass": 0, "fail": 1, "not_applicable": 5}
_WIDTH = 78


class ReproCommand:
    """Play one way to be killed, for real, and check the verdict on it.

    Each scenario says what it does, what the verdict must be, and which fact of the kernel makes it
    so. It runs in a memory cgroup of its own, which is removed; those that use the whole machine up
    run in a test VM alone (scripts/vm). Ends with 0 if the verdict is as declared, with 1 if not, with
    5 if this machine is not made for it.
    """

    name = "repro"
    examples = (
        ("Which scenarios there are", "oomtrace repro --list"),
        ("A kill at a cgroup's limit, with its verdict", "sudo oomtrace repro memcg-leaf"),
        ("Keep the recording, and look at it", "sudo oomtrace repro shm-full --record shm.oomtrace"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "oomtrace repro [options] SCENARIO\n       oomtrace repro --list [--json]"
        parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help="which one (`--list` shows all)")
        parser.add_argument("--list", action="store_true", help="list all scenarios")
        parser.add_argument("--json", action="store_true", help="print the outcome, or the list, as one JSON document")
        parser.add_argument("--record", metavar="FILE", help="keep the recording (default: none is kept)")
        parser.add_argument("--log", metavar="FILE", help="keep the job's output, and have its lines in the recording")

    def run(self, args: argparse.Namespace) -> int:
        if args.list:
            if args.scenario is not None:
                raise UsageError("--list shows all scenarios: it takes none", next_command="oomtrace repro --list")
            write(sys.stdout, _listing(as_json=args.json))
            return 0
        if args.scenario is None:
            raise UsageError("no scenario is named", next_command="oomtrace repro --list")
        return _play(args)


def _play(args: argparse.Namespace) -> int:
    from tracer.repro.catalogue import by_name
    from tracer.repro.runner import Interrupted, play, refuse
    from tracer.views import document

    scenario = by_name().get(args.scenario)
    if scenario is None:
        from tracer.cli.suggestions import unknown_scenario

        raise unknown_scenario(args.scenario, by_name())
    refuse(scenario)
    if os.geteuid() != 0:
        again = f'sudo "$(command -v oomtrace)" repro {scenario.name}'
        raise PermissionDenied("cannot make a cgroup and watch the kernel", need=f"root: {again}")
    try:
        result = play(scenario, os.environ, record=args.record, log=args.log)
    except Interrupted as stopped:
        return 128 + signal.Signals(stopped.signal)
    write(sys.stdout, document.render_document(result) if args.json else _page(result, scenario.what, scenario.why))
    return EXIT_CODES[result.outcome]


def _listing(*, as_json: bool) -> str:
    from tracer.repro.catalogue import SCENARIOS
    from tracer.repro.scenario import Listing, listed
    from tracer.views import document

    if as_json:
        return document.render_document(Listing(scenarios=tuple(map(listed, SCENARIOS))))
    lines = []
    for scenario in SCENARIOS:
        where = "" if scenario.where == "here" else " (in a test VM alone)"
        needs = f" [{', '.join(scenario.needs)}]" if scenario.needs else ""
        lines += [_filled(f"{scenario.name}{where}{needs}", indent=""), _filled(scenario.what, indent="    ")]
    return "\n".join(lines) + "\n"


def _page(result: "Result", what: str, why: str) -> str:
    """For a person: what was played, what came of it, and why it must be so."""
    outcome = {"pass": "pass", "fail": "FAIL", "not_applicable": "not here"}[result.outcome]
    lines = [f"{outcome}  {result.scenario}  ({result.seconds:.1f} s)", _filled(what, indent="  ")]
    if result.reason is not None:
        lines.append(_filled(f"reason: {result.reason}", indent="  "))
    for name in ("cause", "strength", "killed", "victim", "limit", "sender", "sender_comm", "status"):
        value = result.found.get(name)
        if value not in (None, []):
            lines.append(_filled(f"{name:<12}{shown(str(value))}", indent="  "))
    counters = result.counters
    if result.outcome != "not_applicable":
        kernel = "no count" if counters.kernel is None else str(counters.kernel)
        again = f", {counters.counted_again} counted twice" if counters.counted_again else ""
        lines.append(f"  {'kills':<12}{counters.seen} seen, {counters.lost} lost{again}; the kernel counted {kernel}")
    lines.append(_filled(f"{'because':<12}{why}", indent="  "))
    return "\n".join(lines) + "\n"


def _filled(text: str, *, indent: str) -> str:
    return textwrap.fill(
        shown(text), _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
