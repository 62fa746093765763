# SPDX-License-Identifier: Apache-2.0
"""The table of lines in the documentation is that of the tests."""

from tests.architecture.checkout import ROOT
from tests.training_logs import BEGIN, END, table


def test_the_table_of_lines_in_the_documentation_is_that_of_the_tests():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")

    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table()
