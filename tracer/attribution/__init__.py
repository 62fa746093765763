# SPDX-License-Identifier: Apache-2.0
"""Who is who: pure folds of events into the job's tree, the roles in it, and where each process ran."""
