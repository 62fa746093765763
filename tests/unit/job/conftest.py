# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the job's side."""

from tests.screen import shell  # noqa: F401 - a fixture
