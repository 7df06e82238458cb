"""Running untrusted Python: a process for each program, which can compute, read the standard library, and nothing else.

`pool.Pool` hands out sessions, `probe.probe` shows that a tier holds before anything is run in it. The modules
`zygote`, `child`, `restrict`, `filter` and `values` also run inside the launcher, under a bare interpreter: they import
the standard library and each other only.
"""
