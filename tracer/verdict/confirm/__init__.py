# SPDX-License-Identifier: Apache-2.0
"""The checklist by which a host OOM kill is confirmed: its known signs, seen or not, and what to do then."""
