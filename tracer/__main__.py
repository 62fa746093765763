# SPDX-License-Identifier: Apache-2.0
"""`python -m tracer`: the same as the command `oomtrace`."""

import sys

from tracer.cli import main

if __name__ == "__main__":
    sys.exit(main())
