# SPDX-License-Identifier: Apache-2.0
"""One mechanism a file: `judge` says how far the evidence carries it, or nothing."""
