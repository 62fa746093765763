# SPDX-License-Identifier: Apache-2.0
"""CUDA's half of the proof: whose calls were watched since when, what failed, what is held, what that says."""
