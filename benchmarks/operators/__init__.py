"""Gradients of other people's operators: PyTorch's operator database, autograd's vector-Jacobian products, thinc's."""
