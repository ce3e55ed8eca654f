"""Documentation from the commands: one description of each page, and the site.

* ``command_pages``: the page of a command as sections, from which ``jetool.frame.manpages`` renders roff
* ``markdown``: the same sections, and the pages of man5 and man7, as Markdown for the site
* ``site``: the sources of the documentation site, which MkDocs builds: ``python -m jetool.frame.documents.site build``
"""
