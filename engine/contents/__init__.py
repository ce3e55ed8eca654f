"""Kinds of contents: applications that store records in JE, and decoders of their keys and values.

Decoders are pure: they take bytes and return values for JSON. Nothing here opens an environment or depends on how it is
stored.

Modules:

* ``base``: interfaces of kinds and decoders, reading fields of untrusted bytes, parsing foreign JSON
* ``before_images``: JE 25.3's own database of replaced values
* ``bindings``: values written by JE's tuple bindings, including big integers and decimals
* ``changelog_blocks``: log files of OpenDJ's replication changelog: records across blocks
* ``changelog_ldif``: updates as change records of LDIF, and for JSON
* ``changelog_updates``: their records: updates, and entries of the change number index
* ``dpl``: entity stores of JE's Direct Persistence Layer
* ``embedded``: JSON texts and names inside bytes of unknown layout
* ``frontend_files``: the files beside a frontend's journals: role, cluster, images
* ``frontend_images``: headers and footers of a frontend's image files
* ``heritrix``: the queues of a crawl
* ``java_objects``: objects written by Java serialization, read without their classes
* ``ldap_attributes``: attributes and modifications inside updates, in LDAP's encoding
* ``ldap_names``: databases and DNs of LDAP backends
* ``journals``: journals of Doris and StarRocks frontends
* ``layouts``: parts of fixed binary structures, as Java's ``DataOutput`` writes them
* ``nosql``: Oracle NoSQL: keys of partitions, headers of values
* ``opendj``: LDAP backends of the OpenDJ family: entries, DNs, indexes
* ``operation_table``: the codes of journal operations by product and release
* ``operations``: names of journal operations, and the codes that StarRocks can skip
* ``payloads``: the layouts of binary payloads of journals
* ``qpid``: Qpid Broker-J: messages, and the queues that hold them
* ``registry``: all kinds by name, including those of other packages; recognising the kind of an environment
* ``serial``: records of JE's ``SerialBinding``: Java objects whose classes are in a class catalog
"""
