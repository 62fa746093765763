# SPDX-License-Identifier: Apache-2.0
"""From events to a verdict: what killed the job, how far that is proved, and what was not observed. Pure."""
