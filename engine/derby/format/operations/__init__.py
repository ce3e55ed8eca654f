"""The loggable operations, one registry line each, in Derby's three hierarchies.

``container``, ``transaction`` and ``page`` hold the records of a hierarchy; ``layout`` reads and writes their fields;
``registry`` ties number, name, family and codec together, and ``names`` finds operations by name or group. A field
occurs in a record in its on-disk order.
"""
