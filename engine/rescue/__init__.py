"""What helps when something is broken, or has to be as it was.

* ``explanation``: known messages in pasted exceptions and log files of applications
* ``history``: an environment as it was at a point of its log, and how far back that goes
* ``je_notes``: what JE needs beside a sound log, or would refuse
* ``messages``: messages of JE and Derby that are known: cause, risk, next command
* ``missing_files``: log files that are gone or cut short, and what stood only there
* ``pasted``: pasted text, divided into incidents
* ``points``: points of a log: by LSN, VLSN, time or transaction, and where a log can end there
* ``repair``: recovery, undo and interrupted repairs, for programs
* ``recalculation``: what is in use, counted anew from trees and log
* ``salvage``: the newest committed version of every record of damaged environments, from their logs
* ``space``: what takes room in the directory of an environment, and why each file is kept
* ``truncation``: cutting a log at such a point: what goes, whether what is left is whole, and the cut itself
"""
