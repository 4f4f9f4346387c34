"""npformer's own cases: the catalogue, sample inputs, random draws."""
