"""Engines beyond the local one. Each converts records; none knows a method."""
