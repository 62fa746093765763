# SPDX-License-Identifier: Apache-2.0
"""One kind of end a file: each looks at the case and yields findings; the order is written in `judge`."""
