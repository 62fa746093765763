# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz TARGET [--seconds N] [--corpus FOLDER]`: fuzzing led by coverage. Needs atheris."""

import argparse
import itertools
import os
import sys
import tempfile
import traceback
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tracer"], enable_loader_override=False):
    from tests.fuzz.given import TARGETS
    from tests.fuzz.mutating import changed
    from tests.fuzz.seeds import seeds_of

_LONGEST = 12_288


def _mutated(raw: bytes, most: int, seed: int) -> bytes:
    """Two of three times by lines, else by bytes."""
    if seed % 3 and raw:
        return changed(raw, seed)[:most]
    found: bytes = atheris.Mutate(raw, most)
    return found


class _Kept:
    """Inputs that break something, one of each kind: fuzzing goes on."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target, self._folder = target, folder
        self._seen: set[tuple[str, str, int]] = set()

    def __call__(self, raw: bytes) -> None:
        try:
            TARGETS[self._target](raw)
        except Exception as error:  # noqa: BLE001 - whatever it is
            frame = traceback.extract_tb(error.__traceback__)[-1]
            kind = (f"{type(error).__name__}: {error}"[:80], frame.filename, frame.lineno or 0)
            if kind not in self._seen:
                self._seen.add(kind)
                path = self._folder / f"{self._target}-{zlib.crc32(raw):08x}"
                path.write_bytes(raw)
                print(f"BROKEN {path}: {kind}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzzing led by coverage.")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument("--runs", type=int, default=-1, help="how many inputs at most")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time; it is printed")
    parser.add_argument("--corpus", type=Path, help="what was found to be interesting is kept there")
    parser.add_argument("--few", type=int, help="so many seeds, and no more")
    parser.add_argument("--crashes", type=Path, default=Path(), help="inputs that break something go there (here)")
    options = parser.parse_args()
    os.environ["OOMTRACE_FUZZ_TIMES"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        corpus = options.corpus or Path(folder)
        corpus.mkdir(parents=True, exist_ok=True)
        for number, raw in enumerate(itertools.islice(seeds_of(options.target), options.few)):
            (corpus / f"seed-{number}").write_bytes(raw)
        arguments = [
            sys.argv[0], str(corpus), f"-max_total_time={options.seconds}", f"-runs={options.runs}",
            f"-seed={options.seed}", f"-max_len={_LONGEST}", "-timeout=120", "-report_slow_units=30",
            "-rss_limit_mb=2048", f"-artifact_prefix={options.crashes}/", "-print_final_stats=1",
        ]  # fmt: skip
        atheris.Setup(arguments, _Kept(options.target, options.crashes), custom_mutator=_mutated)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
