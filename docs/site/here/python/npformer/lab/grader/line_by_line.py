def lines_of(exercise, source, outcome):
    return []  # npformer grade has it
