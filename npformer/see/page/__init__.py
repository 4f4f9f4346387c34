"""Pages that open from disk in a browser, with the network off: each is one HTML file with everything in it."""

from npformer.see.page.trace_writer import trace_page, write_trace_page

__all__ = ["trace_page", "write_trace_page"]
