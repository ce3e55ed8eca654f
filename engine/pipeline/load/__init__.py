"""Bulk load: sorted records become finished log files.

An external sort in two jobs, followed by the stitch step:

1. *Runs*. Every task reads a part of the source, checks the records, converts them to keys and values, and writes
   sorted runs of some ten megabytes, as Arrow files, into the staging directory. Bad records are written to the
   rejects. So the source is read only once, which matters for expensive formats.
2. *Files*. The runs are cut at keys into as many parts as there are tasks. A task merges its part of all runs,
   resolves duplicates, and writes LNs and complete BINs into log files of its own: it claims each number
   by creating the file. LSNs are final from the start. Node ids follow from the file.
3. *Stitch*. The driver builds the upper nodes, has the engine log them with the names, the utilization and a checkpoint
   in a file after the others, and renames all files into place, the one with the checkpoint last. Until then recovery
   finds no root for the database, and ignores its LNs (je-log-format.md 14.3), so the environment is unchanged.

A task may run twice, or die and be repeated: only the result of the successful attempt is used. Runs of other attempts
are not merged, and their log files leave gaps in the numbers, as cleaned files do.

Example, environment with file 0, three parts: files 1, 2, 3 (``INS_LN ... BIN YES ...``) and file 4: ``NameLN_TX |
MapLN | Commit | IN ... IN root | CkptStart | MapLN | FileSummaryLN ... | DbTree | CkptEnd``.

Who does what: ``plan`` (values sent to tasks), ``stage`` (the directory, the commit, cleaning up),
``input`` (parts of files, and records of a source to keys and values), ``runs`` (sorting and merging), ``blocks``
(bytes of many entries at once), ``log_output`` (the files of a task), ``stitch``. ``session`` keeps the environment
open; ``bulk`` runs the steps; ``pairs`` replaces step 1 if records are already keys and values (dumps);
``database_merge`` replaces steps 2 and 3 for a database that already holds records.

Also here:

* ``local_backend``: the two jobs of a load without Spark
* ``spark_backend``: the two jobs of a load on Spark
* ``reject_file``: the file of records that were not taken
"""
