"""Bulk load: sorted records become finished log files.

An external sort in two jobs, and a stitch:

1. *Runs*. Every task reads a part of the source, checks the records, makes keys and values of them, and writes sorted
   runs of some ten megabytes, as Arrow files, into the staging directory. Bad records go to the rejects. So the source
   is read once, whatever its format costs.
2. *Files*. The runs are cut at keys into as many parts as there are tasks. A task merges its part of all runs,
   resolves duplicates, and writes LNs and complete BINs into log files of its own: it claims each number
   by creating the file. LSNs are final from the start. Node ids follow from the file.
3. *Stitch*. The driver builds the upper nodes, has the engine log them with the names, the utilization and a checkpoint
   in a file after the others, and renames all into place, the last one last. Until then recovery finds no root for the
   database, and ignores its LNs (je-log-format.md 14.3): the environment is as it was.

A task may run twice, or die and be repeated: what counts is what the attempt that succeeded has returned. Runs of
another attempt are not merged; its log files leave gaps in the numbers, as cleaned files do.

Example, environment with file 0, three parts: files 1, 2, 3 (``INS_LN ... BIN YES ...``) and file 4: ``NameLN_TX |
MapLN | Commit | IN ... IN root | CkptStart | MapLN | FileSummaryLN ... | DbTree | CkptEnd``.

Who does what: ``plan`` (values that travel to tasks), ``stage`` (the directory, the commit, cleaning up),
``input`` (parts of files, and records of a source to keys and values), ``runs`` (sorting and merging), ``blocks``
(bytes of many entries at once), ``log_output`` (the files of a task), ``stitch``. ``session`` holds the environment
meanwhile; ``bulk`` goes through the steps; ``pairs`` takes the place of 1 where records come as keys and values
(dumps); ``database_merge`` that of 2 and 3 for a database that holds records.

Also here:

* ``local_backend``: the two jobs of a load without Spark
* ``spark_backend``: the two jobs of a load on Spark
* ``reject_file``: the file of records that were not taken
"""
