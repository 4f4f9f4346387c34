from npformer.io.child.values import as_tuple, mapped  # noqa: F401
