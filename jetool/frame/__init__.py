"""The frame of the command line: finding and calling a command, opening its environment, and ending the run.

``cli`` finds the command in ``table`` and runs it; ``command``, ``groups`` and ``options`` declare commands; ``verbs``
chooses the function for JE or for Derby by the kind of the environment (``kinds``); ``params`` and ``addresses`` parse
arguments; ``environments``, ``repairs`` and ``node_stream`` open environments; ``exits`` turns an exception into an
exit code and a message. ``schemas``, ``manpages`` and ``documents`` generate documentation.

Also here:

* ``crash_report``: the report file of an internal error
* ``decode_option``: the option ``--decode``, which prints decoded records
* ``defaults``: what is used when an argument is left out
* ``interrupted``: how the next command handles an interrupted repair
* ``log_damage``: warnings about damage, for commands that read the whole log
* ``manual``: the pages of man5 and man7
* ``networks``: connections to JE nodes, over TCP or TLS
* ``param_types``: the larger types of ``params``
* ``record_output``: input and output of records, for every kind of environment
* ``spark_session``: Spark for commands: a session from the shared options
* ``version``: what ``jetool --version`` prints
"""
