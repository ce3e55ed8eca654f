"""The frame of the command line: how a command is found, called, given its environment, and ended.

``cli`` finds the command in ``table`` and runs it; ``command`` and ``options`` are what commands are declared with;
``verbs`` chooses by the kind of the environment (``kinds``) whether the command's own function serves it, or Derby's;
``params`` and ``addresses`` read what the user typed; ``opening``, ``repairs`` and ``node_stream`` open what the user
named; ``exits`` turns whatever ends a run into an exit code and a message. ``schemas`` and ``manpages`` describe it
all.
"""
