"""Why a step hurt: steps with one planted cause, sound steps, and what is named first for each."""
