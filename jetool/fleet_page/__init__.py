"""The HTML page of a fleet report: one file, no scripts or fonts from elsewhere, light and dark.

``page`` assembles it, ``log_map`` and ``charts`` draw, ``svg`` has shared drawing functions, ``style`` is the style
sheet. ``statistics`` is another page, of JE's own statistics. Drawings are SVG generated here. Colours come from the
style sheet by class, so that they follow the reader's theme; colour is never the only distinction; every drawing has a
text description, and tables hold the figures.
"""
