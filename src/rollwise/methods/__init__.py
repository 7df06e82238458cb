"""The method table. A method is data: the settings that make it, its paper, and where we differ."""

from rollwise.methods.base import Method
from rollwise.methods.table import METHODS, method, method_names

__all__ = ["METHODS", "Method", "method", "method_names"]
