"""Firesteel's native part."""
# ruff: noqa: N999

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import torch

class Error(RuntimeError):
    """What every error of Firesteel derives from."""

class TraceError(Error):
    """the function cannot be traced"""

class DataDependentError(TraceError):
    """the traced function read a tensor's data"""

class EscapedTensorError(TraceError):
    """a traced tensor was used after its trace had ended"""

class OutputTypeError(TraceError):
    """the traced function returned something that is no tensor"""

class MutationError(TraceError):
    """the traced function changed a tensor in a way not supported"""

class InputMismatchError(Error):
    """the inputs differ from those the graph was traced for"""

class GraphFormatError(Error):
    """the text of a graph cannot be read"""

class GraphBreakError(Error):
    """a compiled function needs a graph break, which fullgraph=True forbids"""

class RecompileLimitError(Error):
    """a compiled function was compiled too often, and fullgraph=True forbids running it eagerly"""

class UnsupportedPlatformError(Error):
    """this build of torch, Python or machine is not supported"""

class InternalError(Error):
    """a mistake of Firesteel's own"""

class Source(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

class Value:
    """A value of a graph: one of its inputs, or an output of a node."""

    @property
    def name(self) -> str:
        """The name in the graph's text, without '%'."""
    @property
    def type(self) -> str:
        """As in the graph's text: `f32[8, 16]`."""
    @property
    def role(self) -> Literal["argument", "captured", "tangent", "saved"] | None:
        """Of an input: 'argument', 'captured', 'tangent' or 'saved'; None for others."""
    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """Sizes; text where one is an expression; None for what is no tensor."""
    @property
    def strides(self) -> tuple[int | str, ...] | None: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    @property
    def device(self) -> torch.device | None: ...
    @property
    def requires_grad(self) -> bool: ...

class Node:
    """One operator call of a graph."""

    @property
    def op(self) -> str:
        """`aten.add.Tensor`."""
    @property
    def name(self) -> str:
        """The name of the first output."""
    @property
    def names(self) -> list[str]: ...
    @property
    def inputs(self) -> list[str]:
        """Names of the values it reads, in order."""
    @property
    def args(self) -> str:
        """The arguments as in the graph's text."""
    @property
    def outputs(self) -> list[Value]: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> tuple[int | str, ...] | None: ...
    @property
    def strides(self) -> tuple[int | str, ...] | None: ...
    @property
    def dtype(self) -> torch.dtype | None: ...
    @property
    def device(self) -> torch.device | None: ...
    @property
    def source(self) -> Source | None:
        """Source(file, line, function) of the user's line; None where unknown."""
    @property
    def phase(self) -> Literal["forward", "backward"]: ...

class Graph:
    """A traced function as a graph of ATen operators."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Runs the graph on new tensors of the same structure, shapes and dtypes."""
    def run(self, inputs: Sequence[torch.Tensor], native: bool = False) -> list[torch.Tensor | None]:
        """Runs the operators as they stand, on one tensor for each of `inputs`, and gives what `outputs` names; a
        graph from text can be run too. By ATen, or with native=True in compiled kernels where there are such. Nothing
        is differentiated."""
    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> list[Node]: ...
    @property
    def inputs(self) -> list[Value]: ...
    @property
    def outputs(self) -> list[Value | str | None]: ...
    @property
    def conditions(self) -> list[str]:
        """What the sizes that the graph leaves open must meet, with the line that asks for it."""
    @property
    def captured(self) -> list[torch.Tensor]:
        """The tensors it holds: what the function reached besides its arguments."""
    @property
    def joint(self) -> Graph:
        """Forward and backward in one graph."""
    @property
    def forward(self) -> Graph: ...
    @property
    def backward(self) -> Graph | None:
        """None where the function was traced without gradients."""

class _Counters(TypedDict):
    recorded: int
    rule: int
    cpp_meta: int
    python_meta: int
    zero_run: int

def trace(
    fn: Callable[..., Any],
    /,
    *args: object,
    grad: bool = False,
    native: bool = False,
    dynamic: bool = False,
    **kwargs: object,
) -> Graph:
    """Runs fn on traced stand-ins of its arguments and records it as a graph; with grad=True its backward too.
    With native=True pointwise operators run in compiled kernels; with dynamic=True the graph serves other sizes too."""

def parse_graph(text: str) -> Graph:
    """Reads what str(graph) wrote."""

def is_compiling() -> bool:
    """True where the code is being captured or traced; false in eager stretches."""

def is_dynamo_compiling() -> bool:
    """True where the code is being captured; false in what is only traced, and in eager stretches."""

def is_exporting() -> bool:
    """Always false: Firesteel does not export."""

def is_traced(tensor: object) -> bool:
    """True for a tensor that stands for a value of a trace, running or ended."""

def trace_counters() -> _Counters:
    """How many operators were recorded, and how each found its shape."""

def reset_trace_counters() -> None: ...
def native_counters() -> dict[str, int]:
    """Kernels compiled and run, and operators run in them and by ATen."""

def reset_native_counters() -> None: ...
def _fail_kernels(fail: bool) -> None:
    """For tests: no kernel can be made from now on."""

def _spoil_kernels(spoil: bool) -> None:
    """For tests: kernels that are made from now on give floats of the wrong sign."""

def _hold_background_compiler(held: bool) -> None:
    """For tests: while held, no kernel is compiled in the background."""

def _start_run_log() -> None:
    """Keeps every run of compiled code from now on."""

def _stop_run_log() -> tuple[list[tuple[str, int, float, float]], int]:
    """Ends that: [(name, thread, began, seconds), …] by the steady clock, and how many were left out."""

def _set_profiling(on: bool) -> None:
    """Whether each kernel and operator is timed as it runs."""

def _is_profiling() -> bool: ...
def _empty_pool() -> None:
    """Gives memory that kernels' results have left back to the system."""

def _forget_contests() -> None:
    """For tests: libraries are compared, or looked up on disk, once more."""

def _forget_kernels() -> None:
    """For tests: kernels are made, or taken from disk, once more."""

class CompiledFunction:
    """What firesteel.compile gives back for a function."""

    @property
    def _callable(self) -> Callable[..., Any]:
        """What was compiled."""
    def __call__(self, *args: object, **kwargs: object) -> Any: ...

class MarkedFunction:
    """What nonstrict_trace, disable and run give back."""

    @property
    def _callable(self) -> Callable[..., Any]:
        """What was marked."""
    def __call__(self, *args: object, **kwargs: object) -> Any: ...

class _CaptureCounters(TypedDict):
    captured: int
    hits: int
    misses: int
    breaks: dict[str, int]
    fallbacks: dict[str, int]

def counters() -> _CaptureCounters:
    """What compiled functions have done: frames captured, calls served, missed, and run eagerly by reason."""

def reset_counters() -> None: ...
def _compile_function(
    callable: Callable[..., Any],
    backend: str | Callable[[str], Any],
    fullgraph: bool,
    recompile_limit: int,
    notes_recompiles: bool = False,
    wait: bool = False,
    isolated: bool = False,
    dynamic: bool | None = None,
    spec: tuple[dict[str, list[tuple[int, int] | int | None]], list[str]] | None = None,
    freeze: bool = False,
    guard_filter: Callable[[list[tuple[str, bool, Any, str, bool, Any]]], list[bool]] | None = None,
) -> CompiledFunction: ...
def _backends() -> dict[str, str]:
    """The built-in backends' names, and what they mean."""

def _marked_function(function: Callable[..., Any], mark: str, reason: str = "") -> MarkedFunction: ...
def _function_mark(object: object) -> str | None: ...
def _set_mark(callable: object, mark: str, object: object = None, reason: str = "") -> None: ...
def _mark_of(callable: object) -> str: ...
def _is_torch_function(callable: object) -> bool: ...
def _stances() -> dict[str, str]:
    """The stances' names, and what they mean."""

def _set_stance(name: str, backend: object) -> tuple[str, object]: ...
def _break_for_array(what: str) -> None:
    """Breaks the graph: numpy is used in a way that none holds."""

def _write_to_array() -> None:
    """Before an array from outside is written to: breaks the graph where that cannot be."""

def _set_break_policy(policy: bool | None) -> bool | None: ...
def _round_trip(value: object) -> object:
    """For benchmarks: takes a nested value apart and builds it again."""

def _like(value: object, times: int) -> None:
    """For benchmarks: takes a nested value apart along a known structure and builds it again, as calls do."""

def _set_capture_listener(listener: Callable[..., None] | None) -> None: ...
def _capture_data(numbers: bool, sizes: bool, asserts: bool = False) -> None: ...
def _set_operator_gate(gate: Callable[[Any, tuple[Any, ...], dict[str, Any] | None], str | None] | None) -> None: ...
def _open_sources(patterns: list[str], unbacked: list[str]) -> None: ...
def _set_inside_view(callable: Any, show: Callable[..., tuple[str, str] | None] | None = None) -> None: ...
def _set_size_rules(
    parameters_change: bool = False,
    changed_take_any: bool = False,
    ignores_marks: bool = False,
    open_values: list[int] = ...,
) -> None: ...
def _lift_tensors(lift: bool) -> None: ...
def _set_exception_form(form: Callable[[BaseException], BaseException] | None) -> None: ...
def _fix_numbers(ints: bool, floats: bool, global_ints: bool = False, module_ints: bool = False) -> None: ...
def _choose_node(truth: object, then_node: object, else_node: object) -> object:
    """One of two nodes of sizes or floats, by a node that is a truth."""

def _follow_inner_breaks(follow: bool) -> bool: ...
def _follows_arrays() -> bool: ...
def _tensor_of_read_only(array: object) -> torch.Tensor: ...
def _tensor_of_writable(array: object) -> torch.Tensor: ...
def _lie_apart(one: torch.Tensor, other: torch.Tensor) -> bool: ...
def _forget_custom_forms() -> None: ...
def _set_array_rules(stand_in: type | None, always: dict[Any, Any] = {}, with_arrays: dict[Any, Any] = {}) -> None: ...
def _set_compile_watcher(watcher: Callable[[str, int, str, bool], tuple[int, bool]] | None) -> None: ...
def _set_error_provider(provider: Callable[[str], type[Exception] | None] | None) -> None: ...
def _reset() -> None:
    """Forgets all that was compiled."""

class _Break(TypedDict):
    reason: str
    message: str
    why: str
    remedy: str
    place: str
    inside: str
    file: str
    line: int

_Place = tuple[str, int]  # file and line

class _Kernel(TypedDict):
    text: str
    nodes: list[int]
    made: bool | None  # None: it is being compiled
    from_disk: bool
    began: float
    seconds: float

class _Part(TypedDict):
    phase: Literal["forward", "backward"]
    text: str
    tier: Literal["aten", "waiting", "native"]
    lines: list[_Place | None]  # one a node
    calls: list[int]  # the torch-level node each comes from, or -1
    kernels: list[_Kernel]

# With a key that is a keyword.
_Entry = TypedDict(
    "_Entry",
    {
        "number": int,
        "starts_call": bool,
        "kind": Literal["return", "break", "concrete", "eager", "skipped"],
        "function": str,
        "file": str,
        "line": int,
        "graph": str,
        "lines": list[_Place | None],  # these three: of the graph's nodes
        "modules": list[str],
        "opaque": list[int],
        "aten": str,
        "parts": list[_Part],
        "guards": list[str],
        "break": _Break | None,
        "reason": str | None,
        "message": str | None,
        "runs": bool,
        "eager": bool,
        "began": float,
        "seconds": float,
        "stages": dict[Literal["passes", "partition", "code"], float],
        "stages_began": float,
        "backend_seconds": float,
    },
)

class _Recompile(TypedDict):
    function: str
    file: str
    line: int
    before: int
    guard: str
    is_last: bool

def _entries(compiled: CompiledFunction) -> list[_Entry]:
    """What a compiled function holds: graphs, guards, reasons."""

def _recompiles(compiled: CompiledFunction) -> list[_Recompile]:
    """Each capture that an earlier one did not make needless, and the guard that failed; the first ones only where
    compiled without notes_recompiles."""

def _regions() -> list[tuple[list[_Entry], list[_Recompile]]]:
    """(entries, recompiles) of every compiled function there is."""

def _set_progress_listener(listener: Callable[[str, int, int, float, float], None] | None) -> None: ...
def _set_progress_patience(seconds: float) -> float:
    """For tests: progress is shown after so many seconds; gives what it was."""

def _set_event_listener(listener: Callable[[str, Any], None] | None) -> None: ...
def _passes() -> list[str]:
    """The passes over an ATen graph, in the order in which they run."""

def _break_reasons() -> dict[str, tuple[str, str, str]]:
    """By id: what happened, why it matters, what to do."""

def _oracle(on: bool) -> None:
    """For tests: captures notice objects from before them that came in without a source."""

def _oracle_reports() -> list[str]:
    """What was noticed since then."""

def _interrupt_after(instructions: int) -> int:
    """For tests: Ctrl-C is pressed after so many captured instructions; 0: not. Gives how many were left."""

def _break_every(instructions: int) -> None:
    """For tests: every piece ends after so many instructions; 0: not."""

def _set_library_folders(folders: list[str]) -> None: ...
