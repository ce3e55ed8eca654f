"""The frame of the command line: how a command is found, called, given its environment, and ended.

``cli`` finds the command in ``table`` and runs it; ``command``, ``groups`` and ``options`` are what commands are
declared with; ``verbs`` says by the kind of the environment (``kinds``) whether the command's own function serves it,
or Derby's; ``params`` and ``addresses`` read what the user typed; ``environments``, ``repairs`` and ``node_stream``
open what the user named; ``exits`` turns whatever ends a run into an exit code and a message. ``schemas`` and
``manpages`` describe it all.

Also here:

* ``crash_report``: the report file of an internal error
* ``decode_option``: records as their application means them: the option ``--decode``
* ``interrupted``: repairs that were interrupted: what the next command does about one
* ``log_damage``: what commands that read the whole log say about damage in it
* ``manual``: the pages of man5 and man7
* ``networks``: how nodes of JE are reached, over TCP or TLS
* ``param_types``: the larger types of ``params``
* ``record_output``: records on their way in and out, whatever the kind of the environment
* ``spark_session``: Spark for commands: a session from the shared options
* ``version``: what ``jetool --version`` prints
"""
