"""The wrong versions of the reference backward, as the page was given them."""

from npformer.lab.grader.exercises import find
from npformer.lab.grader.parts import FUNCTIONS


class Mutant:
    """A wrong version of the reference backward, as the diagnosis of the package makes it; built when it is called."""

    def __init__(self, told):
        self.operator, self.before, self.after = told["operator"], told["before"], told["after"]
        self._function, self._source = told["function"], told["source"]

    def build(self, *arguments):
        space = dict(FUNCTIONS)
        exec(self._source, space)
        return space[self._function](*arguments)


def mutants(function):
    return [Mutant(told) for told in find(function.__name__[: -len("_backward")]).mutants]
