"""Tokens in, weights out."""
