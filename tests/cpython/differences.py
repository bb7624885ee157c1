"""CPython's tests that end differently when compiled, each with the reason; and those that differ by themselves."""

SHARED_KEYS = (
    "asks how much memory a dict takes that shares its keys: one that is made again after a graph break has keys "
    "of its own"
)

LINES = "asks which source lines were read so far: the place of a graph break was"

GARBAGE = "counts what the collector finds, among it objects in circles that a capture left at a graph break"

# test id: why its outcome differs
DIFFERENCES = {
    "test.test_dict.DictTest.test_splittable_popitem": SHARED_KEYS,
    "test.test_descr.SharedKeyTests.test_subclasses": SHARED_KEYS,
    "test.test_descr.ClassPropertiesAndMethods.test_slots": "counts all objects that the collector knows, among them "
    "those of the capture itself",
    "test.test_traceback.TestStack.test_extract_stackup_deferred_lookup_lines": LINES,
    "test.test_traceback.TestTracebackException.test_lookup_lines": LINES,
    "test.test_call.TestPEP590.test_vectorcall_override": "asks whether `f(*args)` passes the very tuple on, which "
    "Python does not promise",
    "test.test_functools.TestSingleDispatch.test_cache_invalidation": "asks what singledispatch keeps in its cache, "
    "which the capture has asked as well",
    "test.test_gc.GCCallbackTests.test_collect_garbage": GARBAGE,
    "test.test_gc.GCTests.test_get_objects_arguments": GARBAGE,
    "test.test_gc.GCTests.test_resurrection_does_not_block_cleanup_of_other_objects": GARBAGE,
    "test.test_gc.GCTests.test_saveall": GARBAGE,
    "test.test_gc.GCTests.test_frame": "finds a frame that refers to itself: in 3.12 one that ran in pieces has let go "
    "of its variables when it ends",
    **{
        f"test.test_sys_settrace.{case}.test_09_settrace_and_raise": "switches tracing on in a called function, which "
        "raises: the caller, which runs in pieces, is traced from its next line on, so that this exception is not told"
        for case in (
            "TraceTestCase",
            "SkipLineEventsTraceTestCase",
            "TraceOpcodesTestCase",
            "TestLinesAfterTraceStarted",
            "TestSetLocalTrace",
        )
    },
    "test.test_math.MathTests.test_sumprod_stress": "takes minutes in plain 3.12 already, and more than the runner "
    "gives it: millions of turns of a loop without tensors",
    "test.test_gc.GCTogglingTests.test_bug1055820c": "waits in a loop for the collector to run by itself, which rests "
    "while code is captured",
}

# test id: why two plain runs need not agree
UNSTEADY = {}
