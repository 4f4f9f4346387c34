from npformer.lab.grader.exercises import cases_of  # noqa: F401
