# SPDX-License-Identifier: Apache-2.0
"""One DataLoader worker of two keeps every image that it decoded. Fixed: its cache is bounded."""

from tracer.repro.workloads.mechanisms import worker_cache


def main(*, fixed: bool) -> None:
    """As with a cache in all of them."""
    worker_cache.main(fixed=fixed, only_in=0)
