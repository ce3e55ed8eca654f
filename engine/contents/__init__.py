"""Kinds of contents: applications that store records in JE, and decoders of their keys and values.

Decoders are pure: they take bytes and return values for JSON. Nothing here opens an environment or depends on how it is
stored.

Modules:

* ``base``: interfaces of kinds and decoders, reading fields of untrusted bytes, parsing foreign JSON
* ``bindings``: values written by JE's tuple bindings, including big integers and decimals
* ``dpl``: entity stores of JE's Direct Persistence Layer
* ``frontend_files``: the files beside a frontend's journals: role, cluster, images
* ``heritrix``: the queues of a crawl
* ``java_objects``: objects written by Java serialization, read without their classes
* ``ldap_names``: databases and DNs of LDAP backends
* ``journals``: journals of Doris and StarRocks frontends
* ``nosql``: Oracle NoSQL: keys of partitions, headers of values
* ``opendj``: LDAP backends of the OpenDJ family: entries, DNs, indexes
* ``operations``: the codes of journal operations, by product, and the codes that StarRocks can skip
* ``qpid``: Qpid Broker-J: messages, and the queues that hold them
* ``registry``: all kinds by name, including those of other packages; recognising the kind of an environment
* ``serial``: records of JE's ``SerialBinding``: Java objects whose classes are in a class catalog
"""
