# SPDX-License-Identifier: Apache-2.0
"""Memory that was refused, with nobody killed for it: whose bound that was, where it was seen, and what to change."""
