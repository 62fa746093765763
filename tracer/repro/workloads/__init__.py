# SPDX-License-Identifier: Apache-2.0
"""Small programs that get into memory trouble in one well-known way each; none of them needs more than Python."""
