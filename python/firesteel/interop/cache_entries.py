"""_debug_get_cache_entry_list() of torch._dynamo: what is compiled of a function, by pieces that start a call."""

from .. import _C


class CacheEntry:
    """What programs count, and print: the guards, the graph and the code of one piece."""

    def __init__(self, facts, code):
        self.code, self.compile_id = code, f"{facts['number']}/0"
        self.guard_manager = GuardManager(facts["guards"])
        self.trace_annotation = f"{facts['function']} {facts['file']}:{facts['line']}"
        self.graph_text = facts["graph"]


class GuardManager:
    def __init__(self, guards):
        self.guards = guards

    def __str__(self):
        return "\n".join(self.guards)


def entries(code):
    """Those of a function, or of its code, the last one first."""
    code = getattr(code, "__code__", code) if hasattr(code, "__code__") else _code_of(code)
    found = {}
    for pieces, _ in _C._regions():
        for facts in pieces:
            place = facts["function"], facts["file"]
            is_its = place == (code.co_qualname, code.co_filename) and code.co_firstlineno <= facts["line"]
            if is_its and facts["starts_call"] and facts["kind"] in ("return", "break"):
                found[facts["number"]] = CacheEntry(facts, code)
    return [found[number] for number in sorted(found, reverse=True)]


def _code_of(compiled):
    function = getattr(compiled, "_torchdynamo_orig_callable", compiled)
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", function)
