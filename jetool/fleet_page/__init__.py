"""The HTML page of a fleet report: one file, no scripts or fonts from elsewhere, light and dark.

``page`` puts it together, ``log_map`` and ``charts`` draw, ``svg`` has what both need, ``style`` is the style sheet.
Drawings are SVG made here. Colours come from the style sheet by class, so that they follow the reader's theme; nothing
is said by colour alone; every drawing has a text that says what it shows, and tables hold the figures.
"""
