"""The figures in the table of the cost model are those that its example reckons with."""

from __future__ import annotations

from typing import Any

from tests.docs.pages import ROOT, read

PAGE = read(ROOT / "docs/explanation/scaling.md")


def test_the_model_reckons_with_the_figures_of_its_table():
    [table] = [table for table in PAGE.tables() if table.header[0] == "quantity"]
    [block] = [block for block in PAGE.blocks() if "def plan(" in block.text]
    names: dict[str, Any] = {}
    exec(block.text, names)
    for number, figures in ((1, names["sqlite"]), (2, names["postgresql"])):
        assert figures == {row[0].strip("`"): float(row[number]) for row in table.rows}
