def columns():
    return 100


def counted(number, noun):
    return str(number) + " " + noun + ("" if number == 1 else "s")
