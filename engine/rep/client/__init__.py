"""Clients of real nodes of JE: what asks, and later copies and follows.

* ``call``: a connection that belongs to a service, and one question to a text service
* ``connection``: the seam to the network
* ``handshake``: what is agreed with a master before its stream, and its clock
* ``looking``: who is in a group, who is master, how far each node is
"""
