# SPDX-License-Identifier: Apache-2.0
"""Ways to be killed, played on purpose: a catalogue with the verdict that each must get, and who plays it."""
