# SPDX-License-Identifier: Apache-2.0
"""One act of the catalogue: `python FOLDER ACT [ARGUMENT ...]`, the folder being that of this file."""

import sys

from tracer.repro.workloads import actors, dataloader, ends, identities, machines, memory, storm
from tracer.repro.workloads.mechanisms import programs

ACTS = memory.ACTS | ends.ACTS | identities.ACTS | machines.ACTS | actors.ACTS


def main() -> int:
    """Play it."""
    name, *words = sys.argv[1:]
    if name == "mechanism":
        return programs.main(words)
    if name == "storm":
        return storm.main(words)
    if name == "dataloader":
        sys.argv = [dataloader.__file__, *words]
        return dataloader.main()
    ACTS[name](*words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
