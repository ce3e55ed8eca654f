"""Diagnosis and repair of damaged environments, and access to earlier states.

* ``explanation``: known messages in pasted exceptions and log files of applications
* ``history``: an environment as it was at a point of its log, and the oldest such point
* ``je_notes``: what JE needs besides an intact log, and what it would refuse
* ``messages``: known messages of JE and Derby: cause, risk, next command
* ``missing_files``: log files that are missing or cut short, and the data that only they held
* ``pasted``: pasted text, divided into incidents
* ``points``: points of a log, by LSN, VLSN, time or transaction, and where a log can end for them
* ``repair``: recovery, undo and interrupted repairs, as an API
* ``recalculation``: utilization, recounted from trees and log
* ``salvage``: the newest committed version of every record of damaged environments, from their logs
* ``space``: the files in the directory of an environment, their utilization, and why each is kept
* ``truncation``: cuts a log at a point: the removed part, a check that the rest is complete, and the cut
"""
