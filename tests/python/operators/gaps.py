"""Operators of PyTorch's database that cannot be traced and replayed, each with how it stops and why.

`python tests/python/operators/report.py` writes docs/operators.md from this list.
"""

import collections

Gap = collections.namedtuple("Gap", "status reason")

READS = Gap("data-dependent", "reads a tensor's data while it runs: its result, or a check it makes, depends on values")
SIZE = Gap("data-dependent", "the size of its result depends on values")
SPARSE = Gap("TraceError", "takes sparse tensors, which are not traced")
SPARSE_GRADIENT = Gap("RuntimeError", "its gradient is a sparse tensor, which the replay cannot lay out")
CLASS = Gap("TraceError", "takes an object of a class that is no container of tensors and no constant")
CUDA = Gap("AssertionError", "exists on CUDA only")

BOTH = {
    "combinations": SIZE,
    "corrcoef": READS,
    "cov": READS,
    "linalg.lstsq": SIZE,
    "linalg.lstsq.grad_oriented": SIZE,
    "masked_select": SIZE,
    "narrow": READS,
    "nn.functional.ctc_loss": READS,
    "nn.functional.gaussian_nll_loss": READS,
    "nn.functional.linear_cross_entropy.chunked": CLASS,
    "nn.functional.linear_cross_entropy.chunked_none": CLASS,
    "sparse.mm.reduce": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "tensor_split": READS,
}

FORWARD = {
    **BOTH,
    "allclose": READS,
    "argwhere": SIZE,
    "equal": READS,
    "item": READS,
    "jiterator_2inputs_2outputs": CUDA,
    "jiterator_4inputs_with_extra_args": CUDA,
    "jiterator_binary": CUDA,
    "jiterator_binary_return_by_ref": CUDA,
    "jiterator_unary": CUDA,
    "nonzero": SIZE,
    "unique": SIZE,
    "unique_consecutive": SIZE,
}

GRADIENT = {**BOTH, "index_fill": SIZE, "index_put": SIZE, "to_sparse": SPARSE_GRADIENT}

# Further ones among all samples and types of the long sweep: some calls of these stop so, others are equal to eager.
MORE = {
    "__getitem__": SIZE,
    "bincount": SIZE,
    "istft": READS,
    "linalg.svd": READS,
    "nn.functional.one_hot": READS,
    "pca_lowrank": READS,
    "repeat_interleave": SIZE,
    "svd": READS,
    "svd_lowrank": READS,
}
