def combinations(values, two):
    values = list(values)
    return [(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
