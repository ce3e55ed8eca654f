"""The package as a zip, for executors that lack it.

* ``package_archive``: writes the zip, on the driver
* ``archive_entry``: chooses the build on an executor, the native one or the pure one
"""
