"""Walking the trees of an environment that may be damaged.

* ``catalogue``: checking the catalogue: the naming tree against the mapping tree
* ``check``: one walk over the trees of a recovered environment, running all checks and observers
* ``dry_open``: opening an environment for writing, in memory
* ``node_reader``: reading nodes of trees that may be damaged
"""
