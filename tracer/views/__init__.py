# SPDX-License-Identifier: Apache-2.0
"""What a view is: a module that lays out a finished `Report` as text; it computes nothing, and no view imports another.

How to add one: write `tracer/views/NAME.py` with `render(report) -> str` (options keyword only, each with a
default), treat every string of the report as hostile, give it golden outputs under `tests/data/views/`, and
name it in the command that offers it. If a number is missing in the `Report`, it is added to the verdict, not
worked out in the view. A heavy library (`rich`, `jinja2`) is imported by its own view alone and never here.
"""
