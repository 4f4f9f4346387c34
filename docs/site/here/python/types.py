class SimpleNamespace:
    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
