"""Samples of nodes: the state of running groups and of environments, again and again, at a cost that stays small.

A node that is asked over the network answers with its own figures. An environment is read from outside, beside the
process that writes it: nothing is opened for writing, no lock is taken, and after the first sample only what was
appended since is read.

* ``appended_log``: reading what was appended to a log
* ``cache_facts``: what a database's need of memory depends on
* ``environment``: samples of an environment
* ``group``: samples of the nodes of a running group
* ``log_tally``: what a monitor needs from a part of a log
* ``sample``: one sample of one node, as a record
* ``settings``: the settings of an environment that a monitor compares with
* ``stat_capture``: writing statistics of an open environment in JE's form
* ``stat_file``: JE's own statistics, ``je.stat.csv``
* ``stat_summary``: JE's statistics in a few figures
* ``utilization``: how full the files of a log are, and how many the cleaner is behind

Example::

    from engine.monitor.environment import EnvironmentMeter
    from engine.storage.disk import DiskStorage

    meter = EnvironmentMeter(DiskStorage("/data/env"))
    print(meter.sample().end_of_log)
    time.sleep(2)
    print(meter.sample().commit_rate)
"""
