"""Rows of files and of the Hugging Face hub: read, mapped, routed to a verifier, and checked. Imports no torch."""

from rollwise.data.columns import Columns, parse_map
from rollwise.data.load import Example, Examples, Reading, load_examples
from rollwise.data.opening import hub_name, open_rows
from rollwise.data.rows import Row, Rows

__all__ = [
    "Columns",
    "Example",
    "Examples",
    "Reading",
    "Row",
    "Rows",
    "hub_name",
    "load_examples",
    "open_rows",
    "parse_map",
]
