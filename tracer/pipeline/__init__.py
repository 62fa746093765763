# SPDX-License-Identifier: Apache-2.0
"""While a job runs: from the sources into the recording, in one loop that never blocks and never fails the job."""

from tracer.pipeline.attach import AttachedPipeline, Attachment, Ending, Target
from tracer.pipeline.ports import Sources
from tracer.pipeline.run import Outcome, Pipeline, Plan

__all__ = ["AttachedPipeline", "Attachment", "Ending", "Outcome", "Pipeline", "Plan", "Sources", "Target"]
