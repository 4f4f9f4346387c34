from npformer.lab.grader.parts import operations

FUNCTIONS = {name: getattr(operations, name) for name in dir(operations)}
