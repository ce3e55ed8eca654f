"""Pure codecs of JE's log format: bytes to frozen records and back. Standard library only, no I/O.

Start with ``entry_types`` (what is in a log), then ``header`` (what the entry at a position is), then one codec of
``entry``. ``fast`` has the layouts of headers, LNs, BINs and ends of transactions once more, for passes that
meet millions. Walking and decoding are separate: a pass over a log touches bodies only where it needs them.

Also here:

* ``bloom``: the bloom filter of a BIN-delta: which keys the complete BIN may hold besides the delta's
* ``bytecursor``: numbers of a body: packed integers, and bounded reading and writing of scalars
* ``codecs``: the codecs of log entries, each loaded when the first body of its kind is decoded or encoded
* ``describe``: a record's fields in on-disk order, said once; text, JSON, CSV, XML and the Spark schema are renderers
  of this
* ``expiration``: units of expiration times
* ``fields``: what a record's fields are called and what they mean, said once for every renderer
* ``lsn``: log sequence numbers: where an entry stands
* ``sequence_record``: the record of a sequence, in a database of the application
* ``stream_facts``: what one pass over a log notes of its replication stream
* ``tuples``: tuple encodings: the scalars in keys and data of internal databases
* ``versions``: log versions: which exist, which JE wrote them, and since when a feature is in the format
* ``vlsn``: version log sequence numbers: the position of an entry in the replication stream
"""
