# SPDX-License-Identifier: Apache-2.0
"""Who is who: pure folds of events into the job's tree and the roles in it."""
