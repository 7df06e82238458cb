"""Reading run folders and showing them: terminal tables and one HTML page.

    events.py    a run folder -> `Run`
    wording.py   numbers and foreign text made fit to print
    tables.py    one table, three renderings (terminal, markdown, HTML)
    summary.py   where every rollout of a run went
    svg.py       line charts, stacked areas and bars, as text
    curves.py    runs -> curves over seeds
    charts.py    runs -> figures
    samples.py   the first and last groups of rollouts.jsonl
    style.py     the page's style sheet
    page.py      all of it in one file

Imports neither torch nor numpy: a report can be made on a machine that cannot train.
"""
