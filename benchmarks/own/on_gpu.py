"""GPU figures after a measurement: memory in use, kernels that a step launches."""

import ctypes

KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL; others are copies, fills and the like


def memory_watched(chosen):
    """Count the bytes that CuPy's pools request from the driver from now on; the pools keep memory. {} on a CPU."""
    if chosen.name != "cupy":
        return dict
    from cupy.cuda import MemoryHook

    class Asked(MemoryHook):
        name = "asked"
        total = 0

        def alloc_postprocess(self, *, mem_size, **_):
            self.total += mem_size

    hook = Asked()
    hook.__enter__()  # to the end of the process
    return lambda: {"device_bytes": hook.total}


def launched(update):
    """The number of kernels in the graph of a training step; {} if there is no graph."""
    compute = update.runner.compute if update.runner is not None else None
    graphs = [shape.graph for shape in getattr(compute, "_shapes", {}).values() if shape.graph is not None]
    if not graphs:
        return {}
    return {"kernels": count_kernels(ctypes.CDLL("libcuda.so.1"), graphs[-1])}


def noted_launches(driver):
    """A list to which every launch of a graph adds that graph; driver is ``capture.Driver``."""
    graphs, launch = [], driver.launch
    driver.launch = lambda graph: (graphs.append(graph), launch(graph))
    return graphs


def of_a_token(graphs, tokens):
    """Kernels and launches for each token, given the graphs that were launched for so many; {} if there are none."""
    if not graphs:
        return {}
    return {"kernels": count_kernels(ctypes.CDLL("libcuda.so.1"), graphs[-1]), "launches": len(graphs) / tokens}


def count_kernels(driver, graph):
    """The number of kernel nodes in CuPy's graph, from the driver's library."""
    count, handle = ctypes.c_size_t(), ctypes.c_void_p(graph.graph)
    _expect_success(driver.cuGraphGetNodes(handle, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _expect_success(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)))
    kind, kernels = ctypes.c_int(), 0
    for node in nodes:
        _expect_success(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)))
        kernels += kind.value == KERNEL_NODE
    return kernels


def _expect_success(code):
    if code:
        raise RuntimeError(f"CUDA driver: expected success (0) when asked for the nodes of a graph, got error {code}")
