"""Why a gradient is wrong: patterns of its error, and changes of the backward that mend it."""
