def first_wrong_line(exercise, source):
    return None  # npformer grade has it
