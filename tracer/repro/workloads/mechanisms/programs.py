# SPDX-License-Identifier: Apache-2.0
"""Starts one of the programs by its name; where it has ranks, under torchrun. Standard library only."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

WORKLOADS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RANKS = {"dataset_in_ram": 2, "model_duplication": 2}


def main(words: Sequence[str]) -> int:
    """The program's name, and whether it is its fixed twin that runs."""
    parser = argparse.ArgumentParser(prog="mechanism")
    parser.add_argument("name")
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args(words)
    if options.name in RANKS and "RANK" not in os.environ:
        launch(WORKLOADS, "mechanism", *words, ranks=RANKS[options.name])
    importlib.import_module(f"tracer.repro.workloads.mechanisms.{options.name}").main(fixed=options.fixed)
    return 0


def launch(path: str, *words: str, ranks: int) -> NoReturn:
    """Go on as torchrun with so many ranks of that program on this machine."""
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    os.execv(sys.executable, [sys.executable, *launcher, path, *words])
