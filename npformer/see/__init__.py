"""What happens in a forward and a backward, shown: recorded, explained, as pages and as pictures.

- ``record``: ``npf.trace``, every call, every line, every number; a recording that can be asked; the first wrong part
- ``explain``: an operation line by line; where one number of a gradient comes from; what a step did
- ``page``: a trace and the report of runs, as files for a browser
- ``plot``: pictures as SVG
"""
