// Why a capture was given up: one table gives each reason its id, its words and its advice.
#pragma once

#include <string>

#include "firesteel/export.h"

namespace firesteel::capture {

// name, id, what happened (`{}` is the detail), why it matters, what to do.
#define FIRESTEEL_BREAK_REASONS(X)                                                                                     \
  X(Opcode, "FS-OPCODE", "the instruction {} is not supported yet",                                                    \
    "Firesteel interprets the function's bytecode and knows only part of it",                                          \
    "move this statement out of the compiled function, or drop fullgraph=True")                                        \
  X(CFunction, "FS-C-FUNCTION", "`{}` is a C function that Firesteel does not know",                                   \
    "it could have side effects, or read what the guards do not watch",                                                \
    "mark it @firesteel.nonstrict_trace (it must be free of side effects), register it as a custom op, or drop "       \
    "fullgraph=True")                                                                                                  \
  X(DataDependent, "FS-DATA-DEPENDENT", "the program's way depends on a tensor's data ({})",                           \
    "a graph holds for all values of its inputs",                                                                      \
    "use torch.where or a mask instead of a branch, or drop fullgraph=True")                                           \
  X(Exception, "FS-EXCEPTION", "an exception is raised here: {}", "exceptions are left to eager execution",            \
    "call the function without fullgraph=True to see the exception itself")                                            \
  X(Write, "FS-WRITE", "{} changes an object that existed before the call",                                            \
    "side effects are left to eager execution", "return the new value instead, or drop fullgraph=True")                \
  X(Iterator, "FS-ITERATOR", "{} is stepped here that was made before the call, or before a graph break",              \
    "each step changes it, and where it stands cannot be guarded",                                                     \
    "make a list of it before the call, `list(it)`, keep other graph breaks out of the loop, or drop fullgraph=True")  \
  X(Generator, "FS-GENERATOR", "`{}` is a generator or coroutine", "their frames are not captured yet",                \
    "use a list instead, or drop fullgraph=True")                                                                      \
  X(TensorKind, "FS-TENSOR-KIND", "{} cannot stand in a graph", "only plain dense tensors can",                        \
    "pass the plain tensors inside it, or drop fullgraph=True")                                                        \
  X(Autograd, "FS-AUTOGRAD", "{}", "what autograd keeps with a tensor belongs to the tensors of one call",             \
    "do it outside the compiled function, or drop fullgraph=True")                                                     \
  X(Attribute, "FS-ATTRIBUTE", "reading {} could run code that Firesteel does not follow",                             \
    "descriptors and __getattr__ can do anything", "read it outside the compiled function, or drop fullgraph=True")    \
  X(Value, "FS-VALUE", "{}", "Firesteel does not know what this does to such a value",                                 \
    "do it outside the compiled function, or drop fullgraph=True")                                                     \
  X(Origin, "FS-ORIGIN", "{} comes from a place that cannot be guarded", "a later change of it would go unseen",       \
    "pass it as an argument, or drop fullgraph=True")                                                                  \
  X(Argument, "FS-ARGUMENT", "an argument of `{}` cannot be part of a graph", "a node takes tensors and constants",    \
    "pass tensors, numbers, strings and containers of these, or drop fullgraph=True")                                  \
  X(Creation, "FS-CREATION", "an object of class {} is made here", "objects made inside are not rebuilt yet",          \
    "make it outside the compiled function, or drop fullgraph=True")                                                   \
  X(Result, "FS-RESULT", "the function's result holds {}",                                                             \
    "a compiled function gives back tensors, constants and new containers",                                            \
    "return tensors, numbers, strings and containers of these, or drop fullgraph=True")                                \
  X(Trace, "FS-TRACE", "the captured operators cannot be traced: {}", "the ATen graph underneath refused them",        \
    "see the message, or drop fullgraph=True")                                                                         \
  X(Mutation, "FS-NONSTRICT-MUTATION", "`{}` changes a container it was given", "the change would be lost",            \
    "return the new container instead, or drop fullgraph=True")                                                        \
  X(Depth, "FS-DEPTH", "calls nest deeper than {}", "the function is inlined as a whole",                              \
    "use a loop, or drop fullgraph=True")                                                                              \
  X(Hook, "FS-HOOK", "the frame of `{}` was not seen",                                                                 \
    "another thread or tool took the frame hook at the same moment", "call again, or drop fullgraph=True")             \
  X(Monitored, "FS-MONITORED", "`{}` is being traced, profiled or monitored", "capture steps aside for debuggers",     \
    "switch the tool off, or drop fullgraph=True")                                                                     \
  X(Modes, "FS-MODES", "a torch function or dispatch mode is on around `{}`", "the mode must see every operator",      \
    "leave the mode before the call, or drop fullgraph=True")                                                          \
  X(Unstable, "FS-UNSTABLE", "a guard does not hold right after the capture: {}",                                      \
    "what was read changes by being read", "read it outside the compiled function, or drop fullgraph=True")            \
  X(Limit, "FS-RECOMPILE-LIMIT", "`{}` was compiled as often as is allowed", "each compilation costs time and memory", \
    "see the warning for the guard that kept failing")                                                                 \
  X(Python, "FS-PYTHON", "Python {} is not captured yet", "each CPython version has frames of its own",                \
    "use Python 3.11 or 3.12")                                                                                         \
  X(Import, "FS-IMPORT", "the module {} is imported here for the first time", "its code runs once, as it is",          \
    "import it before the call")                                                                                       \
  X(Interrupt, "FS-INTERRUPT", "the capture was interrupted{}", "the interrupt is passed on", "")                      \
  X(Control, "FS-CONTROL", "{}", "the code asks for it", "take the call out, or drop fullgraph=True")                  \
  X(GraphBreak, "FS-GRAPH-BREAK", "graph_break() is called{}", "the code asks for it",                                 \
    "take the call out, or drop fullgraph=True")                                                                       \
  X(Numpy, "FS-NUMPY", "numpy is used in a way that no graph holds: {}",                                               \
    "in a graph torch does what numpy would, as far as it can",                                                        \
    "use torch's own function, leave it to code outside the compiled function, or drop fullgraph=True")                \
  X(Disabled, "FS-DISABLED", "{} is disabled", "disable() asks that it runs eagerly",                                  \
    "keep the call out of the compiled function, take disable() off, or drop fullgraph=True")                          \
  X(Disallowed, "FS-DISALLOWED", "`{}` is disallowed in graphs", "disallow_in_graph() asks that it runs eagerly",      \
    "allow it again with allow_in_graph(), or drop fullgraph=True")                                                    \
  X(SkipFrame, "FS-SKIP-FRAME", "skip_frame() is called{}", "the frame runs eagerly, and what it calls is compiled",   \
    "take the call out, or drop fullgraph=True")                                                                       \
  X(Stance, "FS-STANCE", "nothing that is compiled fits, and set_stance() or run() forbids compiling{}",               \
    "the stance asks for it", "set_stance(\"default\")")                                                               \
  X(Internal, "FS-INTERNAL", "Firesteel made a mistake: {}", "the call is run eagerly instead", "please report it")

enum class BreakReason : uint8_t {
#define X(name, id, what, why, next) name,
  FIRESTEEL_BREAK_REASONS(X)
#undef X
};

struct BreakRow {
  const char *id, *what, *why, *next;
};
const BreakRow& row(BreakReason reason);

// A capture given up: thrown inside the capture, kept by its counters.
struct Break {
  BreakReason reason;
  std::string detail;
  std::string place;   // the user's line, as an error shows it
  std::string inside;  // `forward (model.py:88) → embed (model.py:23)`
  std::string file = {};
  int line = 0;
  size_t depth = 0;       // of calls inside, 1 for the outer frame
  bool is_error = false;  // error_on_graph_break(True) was on, or a function compiled with fullgraph=True is inside
  bool in_whole_stretch = false;

  std::string what() const;     // the row's words with the detail
  std::string message() const;  // the whole text of a GraphBreakError
};

}  // namespace firesteel::capture
