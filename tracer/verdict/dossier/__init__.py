# SPDX-License-Identifier: Apache-2.0
"""All that a page for somebody who was not there needs beside the report: evidence, memory over time, family, facts."""
