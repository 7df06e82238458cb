"""Curation of data: rules that drop rows and say why, and grades by measured pass rate."""
