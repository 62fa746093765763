# SPDX-License-Identifier: Apache-2.0
"""The kernel side of tracing: mechanism alone. Free of imports: the loader child passes through here."""
