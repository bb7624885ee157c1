"""What torch's functions do with a number, written with a tensor in the number's place.

A number that changes from call to call is an input of the graph: a tensor without dimensions. Where a function of torch
takes none there, it is traced in the form below, which gives the same values. Forms are called with such tensors in
place of the numbers, and answer NotImplemented where the number has to be a constant after all.
"""

import torch

_EXACT = (torch.float32, torch.float64)  # others are computed in a wider type: two steps would round twice


def is_number(value):
    return getattr(value, "_is_number", False)


def _exact(*tensors):
    plain = all(isinstance(t, torch.Tensor) and not is_number(t) for t in tensors)
    return plain and tensors[0].dtype in _EXACT and all(t.dtype == tensors[0].dtype for t in tensors)


def _floating(tensor):
    return isinstance(tensor, torch.Tensor) and not is_number(tensor) and tensor.is_floating_point()


def _scaled_sum(method, sign):
    def form(x, other, *, alpha=None):
        if not is_number(alpha) or not _exact(x, other):
            return NotImplemented
        factor = alpha.to(x.dtype, copy=True)
        return getattr(x, method)(other, factor if sign > 0 else -factor)

    return form


def _scaled_product(method):
    def form(x, first, second, *, value=None):
        if not is_number(value) or not _exact(x, first, second):
            return NotImplemented
        return getattr(x, method)(first * value, second)

    return form


def _power(method):
    def form(x, exponent):
        if is_number(x):
            fits = _exact(exponent) and method == "pow"
            return torch.pow(x.to(exponent.dtype, copy=True), exponent) if fits else NotImplemented
        return getattr(x, method)(exponent.to(x.dtype, copy=True)) if _exact(x) else NotImplemented

    return form


def _clamp(method, low="min", high="max"):
    def form(x, min=None, max=None):
        if not _floating(x):
            return NotImplemented
        bounds = {low: min} if high is None else {high: min} if low is None else {low: min, high: max}
        for name, bound in bounds.items():
            if isinstance(bound, torch.Tensor) and not is_number(bound):
                return NotImplemented
            if isinstance(bound, torch.Tensor):
                bounds[name] = bound.to(x.dtype)
            elif bound is not None:
                bounds[name] = torch.scalar_tensor(bound, dtype=x.dtype, device=x.device)
        return getattr(x, method)(**bounds)

    return form


def _dtype_of(value, dtype):
    """The type of a tensor filled with the number; None where torch would look at its value."""
    if dtype is None:
        dtype = torch.get_default_dtype() if value.is_floating_point() else torch.int64
    fits = dtype in _EXACT or (dtype == torch.int64 and not value.is_floating_point())
    return dtype if fits else None


def _full(size, fill_value, *, dtype=None, out=None, requires_grad=False, **options):
    dtype = _dtype_of(fill_value, dtype) if is_number(fill_value) else None
    if dtype is None or out is not None or requires_grad:
        return NotImplemented
    return torch.empty(size, dtype=dtype, **options).fill_(fill_value)


def _full_like(x, fill_value, *, dtype=None, requires_grad=False, **options):
    dtype = _dtype_of(fill_value, dtype or x.dtype) if is_number(fill_value) else None
    if dtype is None or requires_grad:
        return NotImplemented
    return torch.empty_like(x, dtype=dtype, **options).fill_(fill_value)


def _new_full(x, size, fill_value, *, dtype=None, requires_grad=False, **options):
    dtype = _dtype_of(fill_value, dtype or x.dtype) if is_number(fill_value) else None
    if dtype is None or requires_grad:
        return NotImplemented
    return x.new_empty(size, dtype=dtype, **options).fill_(fill_value)


def _tensor(data, *, dtype=None, device=None, requires_grad=False):
    dtype = _dtype_of(data, dtype) if is_number(data) else None
    if dtype is None or requires_grad:
        return NotImplemented
    return torch.empty((), dtype=dtype, device=device).fill_(data)


def _fill(x, value):
    return x.fill_(value) if x.dtype in _EXACT else NotImplemented


def _set_item(x, key, value):
    if not is_number(value) or x.dtype not in _EXACT:
        return NotImplemented
    x[key] = value.to(x.dtype)
    return None


def _masked_fill(method):
    def form(x, mask, value):
        if not is_number(value) or x.dtype not in _EXACT:
            return NotImplemented
        return getattr(x, method)(mask, value.to(x.dtype))

    return form


def _where(condition, first, second):
    one = second if is_number(first) else first
    return torch.where(condition, first, second) if _exact(one) else NotImplemented


def _lerp(method):
    def form(x, end, weight):
        if not is_number(weight) or not _exact(x, end):
            return NotImplemented
        return getattr(x, method)(end, weight.to(x.dtype))

    return form


def _dropout(input, p=0.5, training=True, inplace=False):
    if not is_number(p) or inplace or not _floating(input) or input.device.type != "cpu":
        return NotImplemented
    if not training:
        return torch.nn.functional.dropout(input, 0.5, False)
    keep = 1 - p.clone()
    noise = torch.ops.firesteel.bernoulli.number(torch.empty_like(input.detach()), keep)
    return input * noise.div_(keep)


def _for_each(form):
    def forms(tensors, *others, **named):
        # All or none: what answers for one tensor has written to it.
        if not all(
            _exact(*row) for row in zip(tensors, *(o for o in others if isinstance(o, (list, tuple))), strict=True)
        ):
            return NotImplemented
        rows = zip(tensors, *(o if isinstance(o, (list, tuple)) else [o] * len(tensors) for o in others), strict=True)
        results = [form(*row, **named) for row in rows]
        return NotImplemented if any(result is NotImplemented for result in results) else tuple(results)

    return forms


def _scaled(method):
    def form(x, factor):
        return getattr(x, method)(factor) if is_number(factor) else NotImplemented

    return form


def _in_place(form):
    def forms(*args, **named):
        return NotImplemented if form(*args, **named) is NotImplemented else None

    return forms


def _value_last(form):
    def forms(x, first, second, value=None):
        return form(x, first, second, value=value)

    return forms


# By the name a graph shows: the form, and what its numbers must be for it to hold, which is guarded.
FORMS = {
    "torch.nn.functional.dropout": (_dropout, "a share"),
    "torch.dropout": (lambda input, p, train: _dropout(input, p, train), "a share"),
    "torch.full": (_full, "a float"),
    "torch.full_like": (_full_like, "a float"),
    "torch.Tensor.new_full": (_new_full, "a float"),
    "torch.Tensor.fill_": (_fill, "a float"),
    "torch.tensor": (_tensor, "a float"),
    "torch.as_tensor": (lambda data, dtype=None, device=None: _tensor(data, dtype=dtype, device=device), "a float"),
    "torch.scalar_tensor": (_tensor, "a float"),
    "operator.setitem": (_set_item, "a float"),
    "torch.where": (_where, ""),
    "torch.Tensor.where": (lambda x, condition, other: _where(condition, x, other), ""),
    "operator.pow": (_power("pow"), "no special power"),
    "operator.ipow": (_power("pow_"), "no special power"),
    "torch.pow": (_power("pow"), "no special power"),
    "torch.Tensor.pow": (_power("pow"), "no special power"),
    "torch.Tensor.pow_": (_power("pow_"), "no special power"),
    "torch._foreach_add": (_for_each(_scaled_sum("addcmul", 1)), ""),
    "torch._foreach_sub": (_for_each(_scaled_sum("addcmul", -1)), ""),
    "torch._foreach_mul": (_for_each(_scaled("mul")), ""),
    "torch._foreach_addcmul": (_for_each(_value_last(_scaled_product("addcmul"))), ""),
    "torch._foreach_addcdiv": (_for_each(_value_last(_scaled_product("addcdiv"))), ""),
    "torch._foreach_add_": (_in_place(_for_each(_scaled_sum("addcmul_", 1))), ""),
    "torch._foreach_sub_": (_in_place(_for_each(_scaled_sum("addcmul_", -1))), ""),
    "torch._foreach_mul_": (_in_place(_for_each(_scaled("mul_"))), ""),
    "torch._foreach_addcmul_": (_in_place(_for_each(_value_last(_scaled_product("addcmul_")))), ""),
    "torch._foreach_addcdiv_": (_in_place(_for_each(_value_last(_scaled_product("addcdiv_")))), ""),
}
for _end in ("", "_"):
    _rows = {
        "add": (_scaled_sum("addcmul" + _end, 1), ""),
        "sub": (_scaled_sum("addcmul" + _end, -1), ""),
        "addcmul": (_scaled_product("addcmul" + _end), ""),
        "addcdiv": (_scaled_product("addcdiv" + _end), ""),
        "clamp": (_clamp("clamp" + _end), ""),
        "clip": (_clamp("clip" + _end), ""),
        "clamp_min": (_clamp("clamp" + _end, high=None), ""),
        "clamp_max": (_clamp("clamp" + _end, low=None), ""),
        "masked_fill": (_masked_fill("masked_fill" + _end), "a float"),
        "lerp": (_lerp("lerp" + _end), ""),
    }
    for _name, _row in _rows.items():
        FORMS[f"torch.Tensor.{_name}{_end}"] = _row
        if not _end:
            FORMS[f"torch.{_name}"] = _row
