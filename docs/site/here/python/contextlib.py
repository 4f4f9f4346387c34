class suppress:
    def __init__(self, *kinds):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True
