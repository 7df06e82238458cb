"""What an evaluation found, benchmark by benchmark, and what it is compared with.

record.py     the numbers with what they were measured with; a JSON file, written and read back
against.py    paired differences to another file, and the accuracy-efficiency score
tables.py     terminal tables
"""
