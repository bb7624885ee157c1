// Calling a compiled function: a hit runs its entry; a miss takes the frame of one call and makes a new entry.
#include "capture/compiled_function.h"

#include <algorithm>

#include <Python.h>
#include <structmember.h>

#include <c10/util/SmallVector.h>
#include <fmt/format.h>

#include "capture/callables.h"
#include "capture/counters.h"
#include "capture/frame_hook.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

struct State {
  Backend backend;
  bool fullgraph;
  size_t recompile_limit;
  bool gave_up = false;  // the limit was reached: eager from now on
  std::vector<std::shared_ptr<Entry>> entries;
};

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* callable;  // as given
  PyObject* function;  // the Python function under it
  PyObject* self;      // of a bound method, or null
  PyObject* dict;
  PyObject* weak_references;
  State* state;
};

PyTypeObject* g_compiled_type = nullptr;

CompiledFunction* as_compiled(PyObject* object) { return reinterpret_cast<CompiledFunction*>(object); }

// One call as the function underneath gets it.
struct Arguments {
  Arguments(const CompiledFunction* compiled, PyObject* const* args, size_t count, PyObject* keywords)
      : positional(PyVectorcall_NARGS(count)), keywords(keywords), raw(args) {
    if (!compiled->self) return;
    with_self.push_back(compiled->self);
    with_self.append(args, args + positional + (keywords ? PyTuple_GET_SIZE(keywords) : 0));
    raw = with_self.data();
    ++positional;
  }
  size_t positional;
  PyObject* keywords;
  PyObject* const* raw;
  c10::SmallVector<PyObject*, 8> with_self;
};

PyObject* run_eagerly(CompiledFunction* compiled, const Arguments& args) {
  return PyObject_Vectorcall(compiled->function, args.raw, args.positional, args.keywords);
}

PyObject* fall_back(CompiledFunction* compiled, const Arguments& args, BreakReason reason) {
  ++counters().fallbacks[static_cast<size_t>(reason)];
  return run_eagerly(compiled, args);
}

void raise_break(const Break& found) {
  PyErr_Clear();
  try {
    python::raise_as_is("GraphBreakError", found.message());
  } catch (...) {
    python::set_python_error(std::current_exception());
  }
}

// The first entry that serves the call; its guards' values are in `slots`.
std::shared_ptr<Entry> find_entry(State& state, const Arguments& args, c10::SmallVectorImpl<PyObject*>& slots) {
  const guards::Ambient ambient = guards::Ambient::current();
  for (size_t i = 0; i < state.entries.size(); ++i) {
    const Entry& entry = *state.entries[i];
    if (!entry.shape.matches(args.positional, args.keywords) || entry.ambient != ambient) continue;
    slots.resize(entry.guards.slot_count());
    if (entry.guards.run(args.raw, slots.data()) != guards::GuardProgram::kPass) continue;
    if (i > 0) std::rotate(state.entries.begin(), state.entries.begin() + i, state.entries.begin() + i + 1);
    return state.entries.front();
  }
  return nullptr;
}

// Why the newest entry did not serve.
std::string explain_miss(const State& state, const Arguments& args) {
  if (state.entries.empty()) return "nothing was compiled yet";
  const Entry& entry = *state.entries.front();
  if (!entry.shape.matches(args.positional, args.keywords)) return "the call passes its arguments in another way";
  if (std::string text = entry.ambient.difference(guards::Ambient::current()); !text.empty()) return text;
  std::vector<PyObject*> slots(entry.guards.slot_count());
  const int failed = entry.guards.run(args.raw, slots.data());
  if (failed == guards::GuardProgram::kPass) return "the inputs share memory in another way";
  return entry.guards.explain(failed, args.raw);
}

bool reach_limit(CompiledFunction* compiled, const Arguments& args) {
  State& state = *compiled->state;
  state.gave_up = true;
  const std::string name(python::text_of(reinterpret_cast<PyFunctionObject*>(compiled->function)->func_qualname));
  const std::string text = fmt::format(
      "`{}` was compiled {} times and runs eagerly from now on\n  the guard that failed last: {}\n"
      "  try: pass what keeps changing as a tensor, keep it out of the compiled function, or raise recompile_limit",
      name, state.entries.size(), explain_miss(state, args));
  return PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) == 0;
}

// An entry that only remembers a break runs eagerly. Null without an error: the entry does not fit after all.
PyObject* serve(CompiledFunction* compiled, const Entry& entry, const Arguments& args, PyObject* const* slots) {
  if (!entry.runner) {
    if (compiled->state->fullgraph) return raise_break(*entry.broken), nullptr;
    return fall_back(compiled, args, entry.broken->reason);
  }
  PyRef result = entry.runner->run(slots);
  if (result) ++counters().hits;
  return result.release();
}

// Takes the frame of this call. Null without an error: there is a new entry at the front to serve it.
PyObject* capture_call(CompiledFunction* compiled, const Arguments& args) {
  State& state = *compiled->state;
  const CallShape shape(args.positional, args.keywords);
  bool taken = false, made = false;
  BreakReason reason = BreakReason::Hook;
  FrameTaker taker = [&](PyThreadState* thread, FsFrame* frame) -> PyObject* {
    if (!fs_frame_is_fresh(thread, frame)) {
      reason = BreakReason::Monitored;
      return run_frame(thread, frame);
    }
    std::shared_ptr<Entry> entry;
    try {
      entry = capture_frame(thread, frame, compiled->function, shape, args.raw, state.backend);
    } catch (...) {
      try {
        python::set_python_error(std::current_exception());
      } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
      }
      return fs_frame_finish(thread, frame, nullptr);
    }
    state.entries.insert(state.entries.begin(), entry);
    if (entry->runner) {
      ++counters().captured;
      made = true;
      return fs_frame_finish(thread, frame, Py_NewRef(Py_None));
    }
    if (state.fullgraph) {
      state.entries.erase(state.entries.begin());
      raise_break(*entry->broken);
      return fs_frame_finish(thread, frame, nullptr);
    }
    ++counters().fallbacks[static_cast<size_t>(entry->broken->reason)];
    reason = entry->broken->reason;
    fs_frame_rewind(frame);
    return run_frame(thread, frame);
  };
  PyRef result = PyRef::steal(call_hooked(compiled->function, args.raw, args.positional, args.keywords, taker, taken));
  if (result && (!taken || reason == BreakReason::Monitored)) ++counters().fallbacks[static_cast<size_t>(reason)];
  if (made && result) return nullptr;
  return result.release();
}

PyObject* call_compiled(CompiledFunction* compiled, const Arguments& args) {
  State& state = *compiled->state;
  // Inside a trace the function is part of what is traced.
  if (is_tracing()) return run_eagerly(compiled, args);
  c10::SmallVector<PyObject*, 64> slots;
  if (std::shared_ptr<Entry> entry = find_entry(state, args, slots)) {
    PyObject* result = serve(compiled, *entry, args, slots.data());
    if (result || PyErr_Occurred()) return result;
  }
  ++counters().misses;
  if (!fs_can_capture()) return fall_back(compiled, args, BreakReason::Python);
  constexpr int kSpecialCode = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(compiled->function)->func_code);
  if (code->co_flags & kSpecialCode) {
    if (state.fullgraph)
      return raise_break({BreakReason::Generator, std::string(python::text_of(code->co_name)), {}, {}}), nullptr;
    return fall_back(compiled, args, BreakReason::Generator);
  }
  if (guards::Ambient::current().python_modes) return fall_back(compiled, args, BreakReason::Modes);
  if (!state.gave_up && state.entries.size() >= state.recompile_limit) {
    if (state.fullgraph) {
      python::raise_as_is(
          "RecompileLimitError",
          fmt::format("`{}` was compiled {} times, and fullgraph=True forbids running it eagerly\n  the guard that "
                      "failed last: {}",
                      python::text_of(reinterpret_cast<PyFunctionObject*>(compiled->function)->func_qualname),
                      state.entries.size(), explain_miss(state, args)));
    }
    if (!reach_limit(compiled, args)) return nullptr;
  }
  if (state.gave_up) return fall_back(compiled, args, BreakReason::Limit);
  PyObject* result = capture_call(compiled, args);
  if (result || PyErr_Occurred()) return result;
  if (std::shared_ptr<Entry> entry = find_entry(state, args, slots)) {
    result = serve(compiled, *entry, args, slots.data());
    if (result || PyErr_Occurred()) return result;
  }
  return fall_back(compiled, args, BreakReason::Unstable);
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  try {
    CompiledFunction* compiled = as_compiled(self);
    return call_compiled(compiled, Arguments(compiled, args, count, keywords));
  } catch (...) {
    try {
      python::set_python_error(std::current_exception());
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
  }
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  CompiledFunction* compiled = as_compiled(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(compiled->callable);
  Py_VISIT(compiled->function);
  Py_VISIT(compiled->self);
  Py_VISIT(compiled->dict);
  if (!compiled->state) return 0;
  for (const auto& entry : compiled->state->entries) {
    if (int stopped = entry->guards.traverse(visit, arg)) return stopped;
  }
  return 0;
}

int clear(PyObject* self) {
  CompiledFunction* compiled = as_compiled(self);
  Py_CLEAR(compiled->dict);
  // Dropping entries may run Python: take them out first.
  if (compiled->state) auto entries = std::exchange(compiled->state->entries, {});
  return 0;
}

void destroy(PyObject* self) {
  CompiledFunction* compiled = as_compiled(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (compiled->weak_references) PyObject_ClearWeakRefs(self);
  delete std::exchange(compiled->state, nullptr);
  Py_CLEAR(compiled->dict);
  Py_CLEAR(compiled->callable);
  Py_CLEAR(compiled->function);
  Py_CLEAR(compiled->self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<firesteel compiled function %R>", as_compiled(self)->callable);
}

PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weak_references), READONLY, nullptr},
    {"_callable", T_OBJECT, offsetof(CompiledFunction, callable), READONLY, "what was compiled"},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef g_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                          {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot g_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_repr, reinterpret_cast<void*>(represent)},
                         {Py_tp_members, g_members},
                         {Py_tp_getset, g_getset},
                         {0, nullptr}};
PyType_Spec g_spec = {
    "firesteel.CompiledFunction", sizeof(CompiledFunction), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_slots};

}  // namespace

void make_nonstrict_type(PyObject* module);

void make_callable_types(PyObject* module) {
  g_compiled_type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&g_spec)).release());
  python::check(PyModule_AddObjectRef(module, "CompiledFunction", reinterpret_cast<PyObject*>(g_compiled_type)) == 0);
  make_nonstrict_type(module);
}

PyRef new_compiled_function(PyObject* callable, Backend backend, bool fullgraph, size_t recompile_limit) {
  auto* made = PyObject_GC_New(CompiledFunction, g_compiled_type);
  PyRef held = python::checked(reinterpret_cast<PyObject*>(made));
  const bool bound = PyMethod_Check(callable);
  made->vectorcall = &vectorcall;
  made->callable = Py_NewRef(callable);
  made->function = Py_NewRef(bound ? PyMethod_GET_FUNCTION(callable) : callable);
  made->self = bound ? Py_NewRef(PyMethod_GET_SELF(callable)) : nullptr;
  made->dict = nullptr;
  made->weak_references = nullptr;
  made->state = new State{backend, fullgraph, recompile_limit};
  PyObject_GC_Track(held.get());
  return held;
}

const std::vector<std::shared_ptr<Entry>>* entries_of(PyObject* object) {
  return g_compiled_type && Py_IS_TYPE(object, g_compiled_type) ? &as_compiled(object)->state->entries : nullptr;
}

PyObject* compiled_callable(PyObject* object) {
  return g_compiled_type && Py_IS_TYPE(object, g_compiled_type) ? as_compiled(object)->callable : nullptr;
}

bool is_own_callable(PyObject* object) { return compiled_callable(object) || nonstrict_callable(object); }

}  // namespace firesteel::capture
