"""Forked worker processes of one command, and what they share.

* ``process``: one worker, a fork of this process that sends messages; the queue that workers share
* ``parallel``: apply a function to tasks in several processes, with results in the order of the tasks
* ``shared_work``: numbered parts of one piece of work, done by a worker and by this process
* ``spill_file``: lists of numbers that workers append to, and that may be larger than memory

The load pipeline has processes of its own (``concurrent.futures``, spawned), since an environment is open meanwhile.
"""
