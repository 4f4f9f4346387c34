"""What runs in a kernel's process, with the files of ``npformer/io/child``. It holds no reference and judges nothing.

It imports only NumPy and the standard library, so its files import each other by their bare names.
"""
