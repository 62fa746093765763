# SPDX-License-Identifier: Apache-2.0
"""The live machine to events. Each source takes its root as an argument, and says `None` for what it cannot know."""
