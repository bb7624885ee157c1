// What one compile() call has compiled: pieces of its function and of the functions it calls across a graph break.
#pragma once

#include <optional>
#include <vector>

#include "capture/first_sizes.h"
#include "capture/pieces.h"

namespace firesteel::capture {

struct RegionOptions {
  BackendChoice backend;
  bool fullgraph;
  size_t recompile_limit;         // 0: the usual one
  bool notes_recompiles = false;  // for explain(): every one, and values are spelled by their own __repr__
  bool isolated = false;          // neither uses the pieces of other regions nor lends its own
};

// A capture that an earlier one did not make needless.
struct Recompile {
  std::string function, file;
  int line = 0;
  uint64_t before = 0;   // the number of the piece that did not serve
  std::string guard;     // the one that failed, in words
  bool is_last = false;  // the limit was reached: eager from now on
};

// How far a call in pieces has come, in whichever of its frames.
struct Progress {
  std::shared_ptr<Segment> segment = nullptr;  // the piece at hand; null: it is to be found
  bool has_run = false;                        // it has: what follows it comes next,
  size_t level = 0;                            // in this frame;
  size_t kept = 0;                             // so far there are frames up to this one, those above have ended
  PyRef result = {};                           // of Return
  std::vector<MadeFrame> made = {};  // frames that it has entered and that are to be made, the outermost first
};

class Region {
 public:
  explicit Region(RegionOptions options);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Calls a Python function compiled. May throw.
  PyObject* call(PyObject* function, const CallValues& values);
  // Runs the function's own frame as it is; what it calls is compiled. Of a module's call that frame is its forward's:
  // what nn.Module does around it runs as it is, too.
  PyObject* call_skipped(PyObject* function, const CallValues& values);
  bool is_whole() const { return options_.fullgraph; }
  // The region whose code runs eagerly between two pieces, on this thread; or null.
  static Region* current();
  static std::vector<const Region*> all();
  // Forgets all that all regions have compiled.
  static void reset_all();

  // All pieces, those that start a call first.
  std::vector<std::shared_ptr<Segment>> segments() const { return pieces_.all(); }
  const std::vector<Recompile>& recompiles() const { return recompiles_; }
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  using Bucket = Pieces::Bucket;
  using Slots = guards::Slots;

  static bool is_full(const Bucket& bucket, size_t limit);
  // Whether one more piece may be made, or the bucket has just given up; false: a warning was turned into an error.
  bool may_compile(Bucket& bucket, PyObject* function, const CallValues& values, bool whole);
  void note_recompile(const Bucket& bucket, PyObject* function, const CallValues& values, bool is_last = false);
  // False: a warning was turned into an error.
  bool reach_limit(Bucket& bucket, PyObject* function, const CallValues& values);
  PyObject* run_hooked(PyObject* function, const CallValues& values, std::shared_ptr<Segment> first, Slots& slots);
  // ---- driving.cpp
  // Runs the innermost frame piece by piece to its end; gives what its caller must get. Where that comes in the middle
  // of a piece, `progress` tells the frame that waits for it how to go on.
  PyObject* drive(PyThreadState* state, LiveFrames& frames, Progress& progress, Slots& slots);
  std::shared_ptr<Segment> next_segment(PyThreadState* state, LiveFrames& frames, Capture& concrete, Slots& slots,
                                        std::optional<PyObject*>& ended);
  std::optional<PyObject*> run_piece(PyThreadState* state, LiveFrames& frames, Progress& progress, Slots& slots);
  std::optional<PyObject*> run_broken(PyThreadState* state, FsFrame* frame, const Segment& segment, Capture& concrete);
  std::optional<PyObject*> run_entered(PyThreadState* state, LiveFrames& frames, Progress& progress, Capture& concrete,
                                       Slots& slots);
  PyObject* run_on(PyThreadState* state, FsFrame* frame, BreakReason reason);
  std::optional<PyObject*> run_under_modes(PyThreadState* state, FsFrame* frame, Capture& concrete);
  template <class Run>
  std::optional<PyObject*> advance(PyThreadState* state, FsFrame* frame, Capture& concrete, Run&& run);
  // The frame's instructions one by one, for real, from where it stands to its end.
  PyObject* run_concretely(PyThreadState* state, FsFrame* frame);
  // What the stance asks for in place of a capture; empty: go on.
  std::optional<PyObject*> serve_stance(PyObject* function, const CallValues& values);
  // What is another one than at the first call, which ran without a capture, will be another one again.
  void expect_changes(PyObject* function, const CallValues& values);
  [[noreturn]] void refuse_to_compile(const Bucket& bucket, PyObject* function, const CallValues& values) const;
  // The same options with another backend, which keeps pieces of its own.
  Region& with_backend(const BackendChoice& backend);

  RegionOptions options_;
  Pieces pieces_;
  std::vector<std::unique_ptr<Region>> others_;  // for a backend that set_stance() forces
  bool was_called_ = false;
  FirstSizes first_sizes_;
  bool is_forced_ = false;  // one of those
  std::vector<Recompile> recompiles_;
};

// A call made by an instruction that runs eagerly: functions of the user's are compiled in pieces of their own.
PyRef call_for_real(PyObject* callable, const CallArgs& args);

}  // namespace firesteel::capture
