def lines_of(exercise, source, outcome):
    return None  # npformer grade has it
