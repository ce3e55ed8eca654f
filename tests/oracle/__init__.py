"""Real JE as the judge: what its DbPrintLog says of every fixture environment, compared with what we read.

* ``environments``: the fixtures, their entries as ``engine.log`` reads them, and the files with JE's word.
* ``printlog``: DbPrintLog's output, which is not well-formed, as XML elements.
* ``expected``: such an element as a dict with the keys of ``dump-log --format ndjson``. Every attribute that JE prints
  is taken or named in a short list with the reason; an attribute that nobody takes is an error.
* ``ndjson``: an entry as such a dict, through ``engine.format.describe``.
* ``compare``: ``compare_entry(expected, ndjson)``, which names every difference. It serves the output of the command
  line too.
"""
