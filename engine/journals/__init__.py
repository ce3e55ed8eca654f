"""The journals of a frontend's environment: what there is, whether it is whole, where two nodes part.

``engine.contents`` knows what one record means; here stands what many of them have to be together. Environments are
read as recovery leaves them and never changed.

Modules:

* ``check``: what would stop a frontend that replays them, or surprise its operator
* ``compare``: several nodes side by side: where their journals part, and which of them to start from
* ``extents``: the journal databases, from the keys of their bottom nodes alone
* ``metadata``: the frontend's files beside the environment
* ``reader``: journals by id, with their place in the log and the time of their commit
* ``summary``: the journals in a few numbers, for reports over many nodes
* ``unseen``: journals that the log holds after damage, which recovery does not see
* ``usage``: what fills the environment: journals and bytes by operation and by hour
"""
