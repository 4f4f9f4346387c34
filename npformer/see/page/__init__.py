"""Pages that open from disk in a browser, with the network off: each is one HTML file with everything in it.

Where a number of a trace's page comes from: ``trace_writer`` finds its products, its uses and its witnesses, and reads
the products as ``npformer.see.explain.products`` does. What a call made and received is the trace itself.
"""

from npformer.see.page.trace_writer import trace_page, write_trace_page

__all__ = ["trace_page", "write_trace_page"]
