"""What to do about a graph break or a guard that failed: tables from their words to advice."""

import re

from ._wording import remedy_without_fullgraph

# Better advice than the reason's own, where the words tell more: id, what the message holds, what to do.
_BREAKS = (
    ("FS-C-FUNCTION", "`print`",
     "take the print out, print what the call gives back, or leave it: the code before and after it is compiled"),
    ("FS-C-FUNCTION", "from_numpy|array's memory",
     "make the tensor before the call, or use torch's own function for the array's"),
    ("FS-EXCEPTION", "", "nothing, where it is meant: the exception reaches the caller as it does in eager"),
    ("FS-DATA-DEPENDENT", "numpy: reads",
     "use torch's own function (torch.abs for numpy.abs), or leave the tensor's data to code outside the call"),
    ("FS-DATA-DEPENDENT", r"reads a tensor's data|\(\) of a tensor",
     "keep it a tensor (y / y.max() needs no .item()), or read it after the call"),
)  # fmt: skip

# The first pattern that is found in the words of the guard gives the advice.
_GUARDS = (
    (
        "`the value of the loop at line",
        "take what breaks out of the loop; or nothing: a second graph serves all further rounds, if numbers may vary",
    ),
    (
        "`(the result of the call|value [0-9]+ kept over the break) at line",
        "take out the graph break at that line, or what makes the value another one from call to call",
    ),
    (
        "in the closure of [^`]*`|cell_contents`",
        "pass what the closure holds as an argument, as a tensor where it keeps changing",
    ),
    ("_hooks` has", "add hooks before the first call, or expect one more capture when they are added"),
    (": dtype is", "keep to one dtype: convert before the call, or use torch.autocast around it"),
    (": device is", "move tensors to one device before the call"),
    (
        ": size is",
        "mark_dynamic() before the first call: a size that has changed is left open from the second graph on",
    ),
    (
        "the compiled code needs",
        "look at the line that it names: what it decides by a size, or does with one, splits graphs",
    ),
    ("the compiled code serves sizes", "nothing, for sizes 0 and 1; else a wider range in mark_dynamic()"),
    (": (stride|storage offset) is", "pass tensors of one memory layout: call .contiguous() before the call"),
    (": (requires_grad|is_leaf) is", "keep calls with and without gradients apart, or expect one graph for each"),
    (": kind of tensor", "pass plain tensors"),
    ("has [0-9]+ items, had", "keep the container's length fixed, or stack its tensors into one tensor"),
    ("has other (keys|items)|got an entry|no entry", "keep the same keys from call to call"),
    ("is a .*, was a ", "pass values of one type"),
    ("is (True|False|None), was|was (True|False|None)$", "a flag gives a graph for each of its values: fine for a few"),
    ("` is .*, was ", "pass what keeps changing as a tensor, or keep it out of the compiled function"),
    ("is another function than it was", "make the function once, outside the loop, instead of anew at each call"),
    ("is another object than it was", "make the object once and pass or keep the same one"),
    ("which it was compiled for, is gone", "make the object once and keep it"),
    ("the class .* was changed", "change classes before the first call"),
    ("same object", "pass arguments that are always, or never, the same object"),
    ("(mode|dtype|threads|autocast)", "set it once, or expect a graph for each setting"),
    ("in another way", "call the function the same way each time"),
    ("is gone|no longer there", "keep the objects that the function uses alive between calls"),
)


def cure(guard):
    """Advice for a guard, in the words that explain a miss; empty where there is none."""
    return next((advice for pattern, advice in _GUARDS if re.search(pattern, guard)), "")


def break_cure(reason, message, remedy):
    """Advice for a graph break of one who has not forbidden them."""
    better = (advice for name, pattern, advice in _BREAKS if name == reason and re.search(pattern, message))
    return next(better, remedy_without_fullgraph(remedy))
