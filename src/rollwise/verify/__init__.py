"""Verifiers: from a completion's text to a verdict. Pure Python, bounded in time, and nothing is ever evaluated."""
