"""What records mean to the application that wrote them: kinds of contents, and decoders of their keys and values.

Pure: bytes in, values as JSON has them out. Nothing here opens an environment or knows how one is stored.

Modules:

* ``base``: what kinds of contents and decoders promise, fields of hostile bytes, JSON of others
* ``bindings``: values as JE's tuple bindings write them, large numbers among them
* ``dpl``: entity stores of JE's Direct Persistence Layer
* ``frontend_files``: the files beside a frontend's journals: role, cluster, images
* ``heritrix``: the queues of a crawl
* ``java_objects``: objects as Java's serialization writes them, read without their classes
* ``ldap_names``: databases and DNs of LDAP backends
* ``journals``: journals of Doris and StarRocks frontends
* ``nosql``: Oracle NoSQL: keys of partitions, headers of values
* ``opendj``: LDAP backends of the OpenDJ family: entries, DNs, indexes
* ``operations``: the codes of their operations, by product, and which StarRocks passes over
* ``qpid``: Qpid Broker-J: messages, and which queues have them
* ``registry``: all kinds by name, those of other packages too; which of them an environment is
* ``serial``: records of JE's ``SerialBinding``: Java objects whose classes stand in a class catalog
"""
