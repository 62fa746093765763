# SPDX-License-Identifier: Apache-2.0
"""Small real PyTorch programs: one a mechanism by which a job's memory grows, each with its fixed twin (`fixed=True`).

    PYTHONPATH=. python tracer/repro/workloads mechanism worker_cache [--fixed]

Each is what people write, cut to the few lines that matter; it needs no GPU, takes a few seconds from its first step to
the kill under its limit in tracer/repro/catalogue/mechanisms.py, and is bounded where there is no limit.
"""
