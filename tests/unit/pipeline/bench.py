# SPDX-License-Identifier: Apache-2.0
"""A watch with small stand-ins round it."""

from contextlib import suppress

from tests.unit.pipeline.stand_ins import sources
from tests.unit.pipeline.test_sampler import Notebook
from tracer.pipeline.watch import Watch


class Inspector:
    """Does at once what it is told, and remembers the results."""

    overdue = refused = 0

    def __init__(self):
        self.results, self.looks = [], 0

    def submit(self, work):
        self.looks += 1
        with suppress(OSError):
            self.results += [result for result in [work()] if result is not None]
        return True

    def take(self):
        taken, self.results = self.results, []
        return taken

    def check(self, now_ns):
        pass

    def fileno(self):
        return 0


class Book(Notebook):
    """A recording that can be looked into."""

    def note(self, text):
        self.events.append(text)

    def flush(self):
        pass

    def secure(self):
        self.secured = True


class Bench:
    """The watch, its recording, its helper and its sources."""

    def __init__(self, **given):
        self.book, self.inspector, self.sources = Book(), Inspector(), sources(**given)
        self.watch = Watch(self.sources, self.book, self.inspector)
        self.watch.inspection.cuda = None  # looks at mappings would be counted among the looks: test_cuda.py has them
