# SPDX-License-Identifier: Apache-2.0
"""Small programs that fail on purpose, so that a verdict can be checked against a known cause."""
