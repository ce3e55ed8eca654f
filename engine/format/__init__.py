"""Pure codecs of JE's log format: bytes to frozen records and back. Standard library only, no I/O.

Start with ``entry_types`` (the types of log entries), then ``header`` (how an entry is recognized), then one codec of
``entry``. ``fast`` repeats the layouts of headers, LNs, BINs and ends of transactions for passes over millions of
entries. Walking and decoding are separate: a pass over a log decodes bodies only where it needs them.

Also here:

* ``bloom``: the bloom filter of a BIN-delta: shows which keys the complete BIN may have besides the keys in the delta
* ``bytecursor``: numbers of a body: packed integers, and bounded reading and writing of scalars
* ``codecs``: the codecs of log entries, each loaded when the first body of its kind is decoded or encoded
* ``describe``: a record's fields in on-disk order, defined once; the renderers for text, JSON, CSV, XML and the Spark
  schema use it
* ``entry_fields``: a log entry as it is shown: the fields of its header and body, with kinds and help
* ``expiration``: units of expiration times
* ``fields``: names and kinds of the fields of records, defined once for all renderers
* ``logical_content``: the parts of an entry of the replication stream that are equal on every node of a group
* ``lsn``: log sequence numbers: the positions of entries
* ``sequence_record``: the record of a sequence, stored in a database of the application
* ``stream_facts``: facts about the replication stream that one pass over a log collects
* ``tuples``: tuple encodings: the scalars in keys and data of internal databases
* ``versions``: log versions: which exist, which JE release wrote them, and which features each introduced
* ``vlsn``: version log sequence numbers: the position of an entry in the replication stream
"""
