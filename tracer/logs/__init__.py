# SPDX-License-Identifier: Apache-2.0
"""Text to events: what kernel and programs wrote into logs. Pure: lines in, events out."""
