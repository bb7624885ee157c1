// All guards of one compiled entry as a flat program: walk a step, check it, go on; no Python code, no allocation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <c10/util/SmallVector.h>

#include "guards/class_attributes.h"
#include "guards/holdings.h"
#include "guards/size_guard.h"
#include "guards/source.h"
#include "guards/tensor_facts.h"

namespace firesteel::guards {

// One table drives the enum and the messages: name, and how a miss is told; `{0}` is the source, `{1}` then, `{2}` now.
#define FIRESTEEL_GUARD_KINDS(X)                                     \
  X(Type, "`{0}` is a {2}, was a {1}")                               \
  X(Identity, "`{0}` is another object than it was ({1}, now {2})")  \
  X(Constant, "`{0}` is {2}, was {1}")                               \
  X(Length, "`{0}` has {2} items, had {1}")                          \
  X(Keys, "`{0}` has other keys than it had ({1}, now {2})")         \
  X(Items, "`{0}` has other items than it had ({1}, now {2})")       \
  X(Absent, "`{0}` has got an entry {1}, which hides what was used") \
  X(Present, "`{0}` has no entry {1} any more")                      \
  X(ClassAttributes, "the class {1} was changed: {2}")               \
  X(Code, "`{0}` is another function than it was ({1}, now {2})")    \
  X(Builtin, "`{0}` is another function than it was ({1}, now {2})") \
  X(Tensor, "`{0}`: {2}")                                            \
  X(Sizes, "{2}")                                                    \
  X(Same, "`{0}` and `{1}` are no longer the same object")           \
  X(Distinct, "`{0}` and `{1}` are now the same object")

enum class GuardKind : uint8_t {
#define X(name, text) name,
  FIRESTEEL_GUARD_KINDS(X)
#undef X
};

// As a capture collects them.
struct Guard {
  GuardKind kind;
  const Source* source = nullptr;  // null for ClassAttributes
  PyRef expected;                  // Type, Identity, Constant, Keys, Items (a tuple), Code ((code, globals), or
                                   // None for any), Absent, Present (the key)
  int64_t number = 0;              // Length
  const Source* other = nullptr;   // Same, Distinct
  std::shared_ptr<const TensorFacts> tensor;
  std::shared_ptr<const ClassAttributes> attributes;
  std::shared_ptr<const SizeGuard> sizes;  // Sizes: comes after all others
};

// What a run walked to, one a step: borrowed, but for the numbers that were computed on the way.
struct Slots {
  c10::SmallVector<PyObject*, 64> values;
  std::vector<PyRef> computed;

  PyObject* const* data() const { return values.data(); }
  PyObject* operator[](size_t i) const { return values[i]; }
};

class GuardProgram {
 public:
  // Takes over what the guards and `wanted` sources need of `sources`. Wanted sources get a slot even if nothing guards
  // them. `holdings` belong to the same entry, and live as long: once they are dead, so is the program.
  GuardProgram(const SourceTable& sources, std::vector<Guard> guards, const std::vector<const Source*>& wanted,
               Holdings& holdings);

  static constexpr int kPass = -1;
  // The number of the first guard that fails, or kPass. `function` is the one that was called.
  int run(PyObject* const* arguments, PyObject* function, Slots& slots) const;
  uint32_t slot_of(const Source* source) const { return slots_.at(source->slot); }

  // In words, for the guard that run() named. `plainly`: no value's own __repr__ is run.
  std::string explain(int failed, PyObject* const* arguments, PyObject* function, bool plainly) const;
  // What guards wanted to be one certain tensor, a number of one certain value or a size, and is another: the ways
  // there.
  struct Moved {
    std::vector<SourcePath> tensors, numbers, sizes;
    bool all_else_holds = true;
  };
  // `loosely`: sizes also of tensors that differ in more than these.
  Moved moved(PyObject* const* arguments, PyObject* function, bool loosely) const;
  // When a tensor has died that guards wanted: the ways that led to it, and to those that lie alike (the keys and
  // values of all layers, where those of one are gone); with what was known of each.
  struct LostTensor {
    SourcePath path;
    std::shared_ptr<const TensorFacts> facts;
  };
  std::vector<LostTensor> lost_tensors() const;
  // Which of the objects that guards knew has died, as a person would call it; empty where none has.
  std::string lost_name() const;
  // Every guard as one line, as it stands when it holds.
  std::vector<std::string> describe() const;
  size_t size() const { return checks_.size(); }

 private:
  // Bare objects are those of the holdings. Every call looks at all steps and checks: they are kept small.
  struct Step {
    AccessKind kind;
    bool has_second = false;
    bool is_root = false;
    bool wanted = false;  // its value is used, not only looked at
    uint32_t from = 0, second = 0;
    // The checks of this step's value; those from `of_content` on look at a dict's keys.
    uint32_t first_guard = 0, of_content = 0, last_guard = 0;
    int64_t index = 0;        // of a Member: where the slot lies
    PyObject* key = nullptr;  // of a Member: the class
    // A dict has a new version after each change: what was found in it under `version` is there still.
    mutable uint64_t version = 0;
    mutable PyObject* found = nullptr;
    mutable uint64_t checked_version = 0;  // the checks of its content held under this one
  };
  struct Check {
    GuardKind kind;
    uint32_t slot = 0, other = 0;
    PyObject* expected = nullptr;
    // What else one kind needs; belongs to `facts_`.
    union {
      int64_t number = 0;         // Length; of an Identity: it is a tensor's
      PyObject* globals;          // Code: where the function was made
      const PyMethodDef* method;  // Builtin
      const TensorFacts* tensor;
      const WatchedClass* attributes;
      const SizeCheck* sizes;
    };
  };
  void add_step(const Source& source);
  Check check_of(Guard guard);
  PyObject* keys_of(PyObject* keys);
  bool all_absent(const Step& step) const;
  bool is_other_tensor(const Check& check, PyObject* value) const;
  bool holds(const Check& check, PyObject* value, const Slots& slots) const;
  bool content_holds(const Step& step, PyObject* value, const Slots& slots, uint32_t& failed) const;
  PyObject* walk(const Step& step, PyObject* const* arguments, PyObject* function, Slots& slots) const;
  SourcePath path_to(size_t step) const;
  std::vector<SourcePath> other_parts(size_t step, const Check& check, PyObject* value) const;
  std::vector<SourcePath> other_sizes(size_t step, PyObject* value, bool loosely) const;
  std::string line(const Check& check, const std::string& text) const;

  Holdings& holdings_;
  std::vector<Step> steps_;
  std::vector<std::string> texts_;  // of the steps
  std::vector<Check> checks_;       // in the order of the steps
  std::vector<std::shared_ptr<const void>> facts_;
  std::unordered_map<uint32_t, uint32_t> slots_;  // source slot → program slot
  uint32_t classes_begin_ = 0;                    // checks from here on have no source
  mutable int lost_step_ = -1;                    // the step that led nowhere in the last run
};

}  // namespace firesteel::guards
