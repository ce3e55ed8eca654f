"""How fast the commands are, beside JE's own tools where they are at hand: ``python -m tests.bench --help``.

``generate`` writes a log of any size, ``measure`` runs commands and takes their times and memory, ``cases`` says which
commands are compared with which, ``report`` prints. None of it runs as a timed test; ``test_bench`` checks on a small
log that the parts work and agree.
"""
