// Finding, lending and forgetting pieces.
#include "capture/pieces.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "capture/allowance.h"
#include "capture/callables.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

// All there are; guarded by the GIL.
std::unordered_set<Pieces*>& everyones() {
  static auto* all = new std::unordered_set<Pieces*>;
  return *all;
}

// Owns a piece's references in the collector's eyes. Whoever is in a circle with it is in one through a region, and
// lets go of it there.
struct Box {
  PyObject_HEAD std::shared_ptr<Segment> segment;

  static Box* as(PyObject* object) { return reinterpret_cast<Box*>(object); }
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return as(self)->segment->traverse(visit, arg);
  }
  static int clear(PyObject*) { return 0; }
  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    as(self)->segment.~shared_ptr();
    PyObject_GC_Del(self);
    Py_DECREF(type);
  }
};

PyType_Slot g_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Box::traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(&Box::clear)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(&Box::destroy)},
                         {0, nullptr}};
PyType_Spec g_spec = {"firesteel.Piece", sizeof(Box), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, g_slots};

PyRef boxed(std::shared_ptr<Segment> segment) {
  static auto* type = reinterpret_cast<PyTypeObject*>(python::checked(PyType_FromSpec(&g_spec)).release());
  auto* box = PyObject_GC_New(Box, type);
  PyRef held = python::checked(reinterpret_cast<PyObject*>(box));
  new (&box->segment) std::shared_ptr<Segment>(std::move(segment));
  PyObject_GC_Track(held.get());
  return held;
}

bool passes_alike(const Segment& segment, const CallValues& values) {
  return !segment.shape || segment.shape->matches(values.positional, values.keywords);
}

}  // namespace

void Pieces::Bucket::drop_stale() {
  const uint64_t now = guards::controls_version();
  const auto stale = std::stable_partition(held.begin(), held.end(),
                                           [&](const Held& piece) { return piece.segment->ambient.controls == now; });
  if (stale == held.end()) return;
  const std::vector<Held> dropped(std::make_move_iterator(stale), std::make_move_iterator(held.end()));
  held.erase(stale, held.end());
  gave_up = false;
}

void Pieces::Bucket::drop_registered() {
  const uint64_t now = guards::registrations();
  if (std::exchange(registrations, now) == now) return;
  const std::vector<Held> all = held;  // asking runs Python, which may change it
  for (const Held& piece : all) {
    const Segment& segment = *piece.segment;
    const std::vector<PyRef> pins = segment.holdings.pin_all();
    if (segment.holdings.dead()) continue;
    const auto changed =
        std::find_if_not(segment.strangers.begin(), segment.strangers.end(), guards::are_still_strangers);
    if (changed == segment.strangers.end()) continue;
    const auto name = [](PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; };
    const python::UserLine line = segment.user_line();
    gone = Gone{line.file,
                fmt::format("`{}` is a subclass of `{}`, was none", name(changed->first), name(changed->second)),
                line.line, segment.number};
    std::erase_if(held, [&](const Held& other) { return other.segment == piece.segment; });
  }
}

namespace {

// What lies at the end of a path in this call; null where it leads nowhere.
PyObject* follow_path(const guards::SourcePath& path, PyObject* const* values, size_t count, PyObject* function) {
  PyObject* value = nullptr;
  for (const guards::SourceStep& step : path) {
    if (step.lost()) return nullptr;
    if (step.kind == guards::AccessKind::Argument) {
      if (static_cast<size_t>(step.index) >= count) return nullptr;
      value = values[step.index];
    } else if (step.kind == guards::AccessKind::Function) {
      value = function;
    } else {
      value = guards::follow(step.kind, value, step.key(), step.index);
    }
    if (!value) return nullptr;
  }
  return value;
}

// The place is in a module, below the variables of one that is imported, or among default arguments.
bool is_fixed_place(const guards::SourcePath& path, PyObject* const* values, PyObject* function,
                    const FixedNumbers& fixed) {
  for (size_t steps = 1; steps < path.size(); ++steps) {
    const guards::AccessKind kind = path[steps - 1].kind;
    const bool is_global = kind == guards::AccessKind::FunctionGlobals || kind == guards::AccessKind::Pinned;
    const bool is_default =
        kind == guards::AccessKind::FunctionDefaults || kind == guards::AccessKind::FunctionKwDefaults;
    if ((is_global || is_default) && fixed.global_ints) return true;
    PyObject* owner = follow_path({path.begin(), path.begin() + static_cast<long>(steps)}, values, SIZE_MAX, function);
    if (owner && fixed.module_ints && is_nn_module(owner)) return true;
  }
  return false;
}

}  // namespace

void Pieces::Bucket::add_other_sizes(const guards::GuardProgram::LostTensor& lost, PyObject* now) {
  if (!now || !lost.facts || !python::is_tensor(now)) return;
  for (int32_t dim : lost.facts->other_sizes(python::unpack(now), false)) {
    guards::SourcePath path = lost.path;
    path.push_back(guards::SourceStep::size(dim, lost.facts->sizes[dim]));
    add_moving(std::move(path));
  }
}

void Pieces::Bucket::add_moving(guards::SourcePath path) {
  if (!path.empty() && std::find(moving.begin(), moving.end(), path) == moving.end()) moving.push_back(std::move(path));
}

Pieces::Pieces(const PieceMaking& making) : making_(making) { everyones().insert(this); }
Pieces::~Pieces() {
  self_.reset();
  everyones().erase(this);
}

Pieces::Bucket& Pieces::bucket(const Place& place) {
  auto [found, is_new] = buckets_.try_emplace(place);
  if (!is_new) return found->second;
  Bucket& made = found->second;
  hold_code(place.here.code);
  for (const CodePlace& at : place.waiting) hold_code(at.code);
  return made;
}

void Pieces::hold_code(PyCodeObject* code) {
  if (codes_.count(code)) return;
  auto held = std::make_unique<guards::Holdings>();
  held->hold(reinterpret_cast<PyObject*>(code));
  held->on_death(self_, [this, code] { forget_code(code); });
  codes_.emplace(code, std::move(held));
}

void Pieces::watch(Segment& segment) {
  segment.holdings.on_death(self_, [this, lost = &segment] { forget(lost); });
}

void Pieces::add(Bucket& bucket, std::shared_ptr<Segment> segment) {
  bucket.gone.reset();
  bucket.has_strangers |= !segment->strangers.empty();
  watch(*segment);
  PyRef box = boxed(segment);
  bucket.held.insert(bucket.held.begin(), Held{std::move(segment), std::move(box)});
}

void Pieces::forget(const Segment* lost) {
  for (auto& [place, found] : buckets_) {
    auto at = std::find_if(found.held.begin(), found.held.end(),
                           [&](const Held& piece) { return piece.segment.get() == lost; });
    if (at == found.held.end()) continue;
    found.wasted = lost->served_again ? 0 : found.wasted + 1;
    const python::UserLine line = lost->user_line();
    const std::string object = lost->guards->lost_name();
    found.gone = Gone{line.file, object.empty() ? "" : fmt::format("`{}`, which it was compiled for, is gone", object),
                      line.line, lost->number};
    if (found.wasted) {
      // Tensors that come and go with a call are inputs rather than parts of the graph.
      for (guards::GuardProgram::LostTensor& tensor : lost->guards->lost_tensors()) {
        found.add_moving(tensor.path);
        found.lost.push_back(std::move(tensor));
      }
    }
    // What goes with it may run Python, which may call us.
    const Held last = std::move(*at);
    found.held.erase(at);
    return;
  }
}

void Pieces::forget_code(PyCodeObject* code) {
  std::vector<Bucket> lost;
  for (auto at = buckets_.begin(); at != buckets_.end();) {
    if (!at->first.is_in(code)) {
      ++at;
      continue;
    }
    lost.push_back(std::move(at->second));
    at = buckets_.erase(at);
  }
  auto held = codes_.extract(code);
}

template <class Fits>
std::shared_ptr<Segment> Pieces::take(Bucket& bucket, const Fits& fits) {
  for (size_t i = 0; i < bucket.held.size(); ++i) {
    const Segment& segment = *bucket.held[i].segment;
    if (!fits(segment)) continue;
    segment.served_again = true;
    if (i > 0) std::rotate(bucket.held.begin(), bucket.held.begin() + i, bucket.held.begin() + i + 1);
    return bucket.held.front().segment;
  }
  return nullptr;
}

template <class Fits>
std::shared_ptr<Segment> Pieces::borrow(const Place& place, Bucket& bucket, const Fits& fits) {
  if (making_.isolated || bucket.gave_up) return nullptr;
  for (Pieces* other : everyones()) {
    if (other == this || !making_.shares_with(other->making_)) continue;
    auto theirs = other->buckets_.find(place);
    if (theirs == other->buckets_.end()) continue;
    for (const Held& piece : theirs->second.held) {
      if (!piece.segment->strangers.empty() && theirs->second.registrations != guards::registrations()) continue;
      const SegmentKind kind = piece.segment->kind;
      if ((kind != SegmentKind::Return && kind != SegmentKind::Break) || !fits(*piece.segment)) continue;
      piece.segment->served_again = true;
      watch(*piece.segment);
      bucket.has_strangers |= !piece.segment->strangers.empty();
      bucket.held.insert(bucket.held.begin(), piece);
      return bucket.held.front().segment;
    }
  }
  return nullptr;
}

std::shared_ptr<Segment> Pieces::find_call(PyCodeObject* code, Bucket& bucket, PyObject* function,
                                           const CallValues& values, Slots& slots) {
  const guards::Ambient ambient = guards::Ambient::current();
  auto fits = [&](const Segment& segment) {
    return segment.shape->matches(values.positional, values.keywords) && segment.ambient == ambient &&
           segment.matches(values.raw, function, slots);
  };
  if (bucket.has_strangers) bucket.drop_registered();
  if (auto found = take(bucket, fits)) return found;
  return borrow({{code, 0}}, bucket, fits);
}

std::shared_ptr<Segment> Pieces::find_rest(const Place& place, Bucket& bucket, LiveFrames& frames, Slots& slots) {
  const guards::Ambient ambient = guards::Ambient::current();
  PyObject* const* values = frames.values();
  auto fits = [&](const Segment& segment) {
    return segment.kind == SegmentKind::Concrete ||
           (segment.ambient == ambient && segment.matches(values, frames.function(), slots));
  };
  if (bucket.has_strangers) bucket.drop_registered();
  if (auto found = take(bucket, fits)) return found;
  return borrow(place, bucket, fits);
}

void Pieces::note_moving(const Place& place, PyObject* function, const CallValues& values) {
  Bucket& bucket = this->bucket(place);
  const bool is_for_function = making_.backend == Backend::Callable;
  auto learn = [&](const Segment& segment, bool is_own) {
    if (segment.kind == SegmentKind::Concrete || segment.holdings.dead() || !passes_alike(segment, values)) return;
    guards::GuardProgram::Moved moved = segment.guards->moved(values.raw, function, is_for_function);
    // Another region's piece teaches something only where nothing else keeps it from serving here.
    if (!is_own && !moved.all_else_holds) return;
    for (guards::SourcePath& path : moved.tensors) bucket.add_moving(std::move(path));
    for (guards::SourcePath& path : moved.numbers) {
      const FixedNumbers fixed = fixed_numbers();
      const bool placed = making_.backend == Backend::Callable && (fixed.global_ints || fixed.module_ints);
      const bool asked = fixed.ints || fixed.floats || placed;
      PyObject* number = asked ? follow_path(path, values.raw, SIZE_MAX, function) : nullptr;
      if (number && (PyFloat_Check(number) ? fixed.floats : fixed.ints)) continue;
      if (placed && number && PyLong_Check(number) && is_fixed_place(path, values.raw, function, fixed)) continue;
      bucket.add_moving(std::move(path));
    }
    if (making_.sizes == SizePolicy::None) return;
    for (guards::SourcePath& path : moved.sizes) bucket.add_moving(std::move(path));
  };
  for (const Held& piece : bucket.held) learn(*piece.segment, true);
  if (making_.sizes != SizePolicy::None) {
    const size_t keywords = values.keywords ? static_cast<size_t>(PyTuple_GET_SIZE(values.keywords)) : 0;
    // In the middle of a function the values are the frame's, of which the path names one that was there.
    const size_t count = place.starts_call() ? values.positional + keywords : SIZE_MAX;
    for (const guards::GuardProgram::LostTensor& tensor : std::exchange(bucket.lost, {}))
      bucket.add_other_sizes(tensor, follow_path(tensor.path, values.raw, count, function));
  }
  if (making_.isolated || !bucket.held.empty()) return;
  for (Pieces* other : everyones()) {
    if (other == this || !making_.shares_with(other->making_)) continue;
    auto theirs = other->buckets_.find(place);
    if (theirs == other->buckets_.end()) continue;
    for (const Held& piece : theirs->second.held) learn(*piece.segment, false);
  }
}

std::string Pieces::explain_miss(const Bucket& bucket, PyObject* function, const CallValues& values, bool plainly) {
  if (bucket.held.empty()) return bucket.wasted ? "an object that was used is gone" : "nothing was compiled yet";
  const std::shared_ptr<Segment> held = bucket.held.front().segment;  // explaining runs Python, which may drop it
  const Segment& segment = *held;
  if (!passes_alike(segment, values)) return "the call passes its arguments in another way";
  if (std::string text = segment.ambient.difference(guards::Ambient::current()); !text.empty()) return text;
  Slots slots;
  const int failed = segment.guards->run(values.raw, function, slots);
  if (failed == guards::GuardProgram::kPass) return "the inputs share memory in another way";
  return segment.guards->explain(failed, values.raw, function, plainly);
}

std::vector<std::shared_ptr<Segment>> Pieces::all() const {
  std::vector<std::shared_ptr<Segment>> all;
  for (bool starts : {true, false}) {
    for (const auto& [place, found] : buckets_) {
      if (place.starts_call() != starts) continue;
      for (const Held& piece : found.held) all.push_back(piece.segment);
    }
  }
  return all;
}

int Pieces::traverse(visitproc visit, void* arg) const {
  for (const auto& [place, found] : buckets_) {
    for (const Held& piece : found.held) Py_VISIT(piece.box.get());
  }
  return 0;
}

void Pieces::clear() {
  // Dropping pieces may run Python: take them out first. The buckets stay, for calls that are on their way.
  std::vector<Held> dropped;
  for (auto& [place, found] : buckets_) {
    std::move(found.held.begin(), found.held.end(), std::back_inserter(dropped));
    found.held.clear();
    found.moving.clear();
    found.gave_up = false;
  }
}

}  // namespace firesteel::capture
