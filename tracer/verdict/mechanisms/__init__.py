# SPDX-License-Identifier: Apache-2.0
"""Why memory grew: named only as far as the evidence carries. Pure functions of a kill and what was recorded."""
