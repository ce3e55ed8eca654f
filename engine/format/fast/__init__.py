"""Fast paths for headers, LNs, nodes and ends of transactions, for code that processes millions of them.

Each has a general twin, which documents the fields and reads every version and every rare case, and a test that
compares the two on golden logs of all versions or on generated content. The twins read a new log version. If a layout
changes, fast paths that do not support the new layout leave it to the twins; the limits are coded in this package.

================================  =========================================  ========================================
fast                              general                                    differential test
================================  =========================================  ========================================
``header`` tables, ``item_size``  ``header.decode_header``, ``header_bytes`` ``tests/format/test_fast_headers.py``
``header.sealed``, ``is_intact``  ``header.encode_entry``, ``examine``       ``tests/format/test_fast_headers.py``
``loops.check_plain``             ``header.examine``                         ``tests/format/test_fast_headers.py``
``loops.follow_links``, ``sift``  ``header.decode_header``                   ``tests/format/test_fast_headers.py``
``ln.decode_plain_ln``            ``entry.ln.decode_ln``                     ``tests/format/test_fast_lns.py``
``ln`` single fields              ``entry.ln.decode_ln``                     ``tests/format/test_fast_lns.py``
``ln.encode_user_ln``             ``entry.ln.encode_ln``                     ``tests/format/test_fast_lns.py``
``txn_end.ended_transaction``     ``entry.txn_end.decode_txn_end``           ``tests/format/test_fast_lns.py``
``txn_end.encode_local_end``      ``entry.txn_end.encode_txn_end``           ``tests/format/test_codec_properties.py``
``txn_end.txn_end_fields``        ``entry.txn_end.decode_txn_end``           ``tests/inspect/test_from_bytes.py``
``txns``                          ``entry.ln``, ``entry.txn_end``            ``tests/inspect/test_from_bytes.py``
``fate_table``, ``txn_rows``      ``engine.inspect.fates``                   ``tests/inspect/test_from_bytes.py``
``packed_ints``                   ``array.array``                            ``tests/inspect/test_from_bytes.py``
``filters``                       ``engine.inspect.selection``               ``tests/inspect/test_from_bytes.py``
``expiration_scan``               ``codecs.decode_body``                       ``tests/cleaner/test_expiration.py``
``queued_slots``                  ``engine.verify.records``                  ``tests/verify/test_waiting.py``
``entry_lines``                   ``jetool.commands.dump_log``               ``tests/cli/test_line_layouts.py``
``file_summary``                  ``entry.ln_content.read_file_summary_ln``  ``tests/format/test_real_logs.py``
``bin``, ``encode_usual``         ``entry.node``, ``tree.node_codec``        ``tests/tree/test_fast_codec.py``
``LNBlock``                       ``entry.ln.encode_ln``                     ``tests/pipeline/test_load_blocks.py``
``BINBlock``                      ``entry.node.encode_node``                 ``tests/pipeline/test_load_blocks.py``
================================  =========================================  ========================================

The last three are located with the code for trees and numpy (``tree.node_codec``, ``pipeline.load.blocks``), and take
layouts and flags from here. Functions in C are in ``engine.native``, their differential tests in ``tests/native``.

Also here:

* ``walks``: the loops that walk a buffer: those in C (``engine.native``), or in the pure build those of ``loops``
"""
