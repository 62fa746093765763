# SPDX-License-Identifier: Apache-2.0
"""A trace for Perfetto (https://ui.perfetto.dev, trace_processor): processes, counters, slices, instants and flows.

TrackEvent protobuf, written packet by packet. Times are CLOCK_MONOTONIC as they were recorded; snapshots of the clocks
give the wall time.
"""

from tracer.views.perfetto.write import write

__all__ = ["write"]
