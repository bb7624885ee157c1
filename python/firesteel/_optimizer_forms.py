"""What optimizers call, in forms that a graph can hold: see _python_forms.py."""

import operator

import torch

# ---- tensors sorted by what they lie on, for the foreach functions


def _by_device_and_dtype(lists, with_indices=False):
    if not lists or not all(len(one) in (0, len(lists[0])) for one in lists):
        return NotImplemented
    found = {}
    for place, first in enumerate(lists[0]):
        if first is None:
            return NotImplemented
        groups, places = found.setdefault((first.device, first.dtype), ([[] for _ in lists], []))
        for group, one in zip(groups, lists, strict=True):
            if one:
                group.append(one[place])
        if with_indices:
            places.append(place)
    return found


# ---- tensors in the place of numbers that say how much of another one is taken


def _share_of(method):
    def form(x, other, *, alpha=None):
        if alpha is None or not _may_scale(alpha, x, other):
            return NotImplemented
        return getattr(x, method)(other * _plain(alpha))

    return form


def _value_of(method, combine):
    def form(x, first, second, *, value=None):
        if value is None or not _may_scale(value, x, first, second):
            return NotImplemented
        return getattr(x, method)(combine(first, second) * _plain(value))

    return form


def _plain(number):
    return number.detach() if number.requires_grad else number


def _may_scale(number, *others):
    plain = all(isinstance(other, torch.Tensor) and other.is_floating_point() for other in others)
    return plain and number.dim() == 0 and not number.is_complex()


SHARES = {}
for _place in ("", "_"):
    SHARES[getattr(torch.Tensor, "add" + _place)] = _share_of("add" + _place)
    SHARES[getattr(torch.Tensor, "sub" + _place)] = _share_of("sub" + _place)
    SHARES[getattr(torch.Tensor, "addcmul" + _place)] = _value_of("add" + _place, operator.mul)
    SHARES[getattr(torch.Tensor, "addcdiv" + _place)] = _value_of("add" + _place, operator.truediv)
SHARES[torch.add] = SHARES[torch.Tensor.add]
SHARES[torch.sub] = SHARES[torch.Tensor.sub]
SHARES[torch.addcmul] = SHARES[torch.Tensor.addcmul]
SHARES[torch.addcdiv] = SHARES[torch.Tensor.addcdiv]


FORMS = {torch._C._group_tensors_by_device_and_dtype: _by_device_and_dtype}
