"""Files that are whole or absent, text made safe to print, terminals, bars, numbers and durations for readers."""
