from npformer.lab.grader.child.values import as_tuple, decode  # noqa: F401
