"""Looks at data and judges before anything is spent: rows, golds, rewards; and scores completions in bulk."""
