# SPDX-License-Identifier: Apache-2.0
"""What this machine and this user allow: looked at, tried where that is the only honest test, and judged."""
