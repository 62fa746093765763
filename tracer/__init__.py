# SPDX-License-Identifier: Apache-2.0
"""oomtrace: what killed my training run, with proof from the kernel.

This module stays free of imports: the loader child passes through it.
"""

__version__ = "0.1.0"
