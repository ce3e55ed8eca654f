"""Messages of JE, Derby and the frontends of Doris and StarRocks: cause, risk, next command.

* ``bare``: exceptions of Java and stack traces without a message
* ``derby_asian``, ``derby_english``, ``derby_european``, ``derby_european_sql``: words that identify a code of Derby in
  texts that do not contain the code
* ``derby_log``, ``derby_start``, ``derby_store``, ``derby_txns``: codes of Derby
* ``frontend_texts``: lines that frontends write themselves
* ``je_exceptions``, ``je_rep_exceptions``: exceptions of JE by their classes
* ``je_open_texts``: why JE does not open an intact environment
* ``je_reasons``: reasons of an EnvironmentFailureException
* ``je_texts``, ``je_group_texts``, ``je_stream_texts``, ``je_syncup_texts``, ``je_store_texts``, ``je_handle_texts``:
  texts of JE without their own reason
* ``record``: the record of a known message
* ``table``: all messages, by word and by sign
"""
