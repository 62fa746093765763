# SPDX-License-Identifier: Apache-2.0
"""Two recordings side by side: did a change take the growth of memory away? And one alone: where does it lead?"""

from tracer.verdict.comparison.compare import Recorded, compare, judged
from tracer.verdict.comparison.model import Comparison
from tracer.verdict.comparison.projection import project

__all__ = ["Comparison", "Recorded", "compare", "judged", "project"]
