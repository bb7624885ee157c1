// What one compile() call has compiled: pieces of its function and of the functions it calls across a graph break.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/segment.h"

namespace firesteel::capture {

struct RegionOptions {
  BackendChoice backend;
  bool fullgraph;
  size_t recompile_limit;
  bool notes_recompiles = false;  // for explain(): a note spells values, which runs their __repr__
};

// One call as the function underneath gets it.
struct CallValues {
  PyObject* const* raw;
  size_t positional;
  PyObject* keywords;
};

// A capture that an earlier one did not make needless.
struct Recompile {
  std::string function;
  std::string guard;  // the one that failed, in words
};

class Region {
 public:
  explicit Region(RegionOptions options);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Calls a Python function compiled. May throw.
  PyObject* call(PyObject* function, const CallValues& values);
  // Runs the function's own frame as it is; what it calls is compiled.
  PyObject* call_skipped(PyObject* function, const CallValues& values);
  bool is_whole() const { return options_.fullgraph; }
  // The region whose code runs eagerly between two pieces, on this thread; or null.
  static Region* current();
  // Forgets all that all regions have compiled.
  static void reset_all();

  // All pieces, those that start a call first.
  std::vector<std::shared_ptr<Segment>> segments() const;
  const std::vector<Recompile>& recompiles() const { return recompiles_; }
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Bucket {
    std::vector<std::shared_ptr<Segment>> segments;
    std::vector<guards::SourcePath> moving;  // tensors and numbers that were other ones at a later call
    size_t wasted = 0;                       // pieces in a row that died before they could serve a second call
    bool gave_up = false;                    // the limit was reached: eager from now on

    // Pieces from before the program said something new about callables can never serve again.
    void drop_stale();
    void add_moving(guards::SourcePath path);
  };
  struct Place {
    PyCodeObject* code;
    int next;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    size_t operator()(const Place& place) const {
      return reinterpret_cast<size_t>(place.code) * 31 + static_cast<size_t>(place.next);
    }
  };
  using Slots = guards::Slots;

  Bucket& bucket(PyCodeObject* code, int next);
  void add(Bucket& bucket, std::shared_ptr<Segment> segment);
  // An object that a piece looked at is gone: so is the piece.
  void forget(const Segment* segment);
  // A function's code is gone, and all of its pieces.
  void forget_code(PyCodeObject* code);
  bool is_full(const Bucket& bucket) const;
  std::shared_ptr<Segment> find_call(Bucket& bucket, PyObject* function, const CallValues& values, Slots& slots);
  std::shared_ptr<Segment> find_piece(Bucket& bucket, PyObject* function, FsFrame* frame, Slots& slots);
  // Learns from a miss which tensors and numbers change from call to call.
  void note_moving(Bucket& bucket, PyObject* function, const CallValues& values) const;
  std::string explain_miss(const Bucket& bucket, PyObject* function, const CallValues& values) const;
  void note_recompile(const Bucket& bucket, PyObject* function, const CallValues& values);
  // False: a warning was turned into an error.
  bool reach_limit(Bucket& bucket, PyObject* function, const CallValues& values);
  PyObject* run_hooked(PyObject* function, const CallValues& values, std::shared_ptr<Segment> first, Slots& slots);
  // Runs a frame piece by piece to its end; gives what its caller must get.
  PyObject* drive(PyThreadState* state, FsFrame* frame, PyObject* function, std::shared_ptr<Segment> segment,
                  Slots& slots);
  PyObject* run_on(PyThreadState* state, FsFrame* frame, BreakReason reason);
  std::optional<PyObject*> run_under_modes(PyThreadState* state, FsFrame* frame, Capture& concrete);
  template <class Run>
  std::optional<PyObject*> advance(PyThreadState* state, FsFrame* frame, Capture& concrete, Run&& run);
  // The frame's instructions one by one, for real, from where it stands to its end.
  PyObject* run_concretely(PyThreadState* state, FsFrame* frame);
  // What the stance asks for in place of a capture; empty: go on.
  std::optional<PyObject*> serve_stance(PyObject* function, const CallValues& values);
  [[noreturn]] void refuse_to_compile(const Bucket& bucket, PyObject* function, const CallValues& values) const;
  // The same options with another backend, which keeps pieces of its own.
  Region& with_backend(const BackendChoice& backend);

  RegionOptions options_;
  std::shared_ptr<Region*> self_ = std::make_shared<Region*>(this);  // for those who may outlive it
  std::vector<std::unique_ptr<Region>> others_;                      // for a backend that set_stance() forces
  bool was_called_ = false;
  bool is_forced_ = false;  // one of those
  std::unordered_map<Place, Bucket, Hash> buckets_;
  std::vector<Recompile> recompiles_;
  std::unordered_map<PyCodeObject*, std::unique_ptr<guards::Holdings>> codes_;  // of the places
};

// Called with a description of each piece right after it was captured; None: nobody is.
void set_capture_listener(PyObject* listener);

// A call made by an instruction that runs eagerly: functions of the user's are compiled in pieces of their own.
PyRef call_for_real(PyObject* callable, const CallArgs& args);

}  // namespace firesteel::capture
