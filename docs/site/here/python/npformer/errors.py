class DataError(Exception):
    pass
