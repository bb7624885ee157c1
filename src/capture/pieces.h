// The pieces that a region has compiled, by the place in the code where they start.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "capture/segment.h"

namespace firesteel::capture {

// One call as the function underneath gets it.
struct CallValues {
  PyObject* const* raw;
  size_t positional;
  PyObject* keywords;

  size_t count() const { return positional + (keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0); }
};

// How pieces were made. Regions whose ways are equal use each other's: the layers of a model are one piece of code.
struct PieceMaking {
  Backend backend;
  PyObject* compiler;
  bool wait, whole;
  bool isolated;  // neither lends nor borrows
  SizePolicy sizes;

  bool shares_with(const PieceMaking& other) const {
    return !isolated && !other.isolated && backend == other.backend && compiler == other.compiler &&
           wait == other.wait && whole == other.whole && sizes == other.sizes;
  }
};

class Pieces {
 public:
  // A piece that several regions may hold: the collector must see its references once, so they are a box's.
  struct Held {
    std::shared_ptr<Segment> segment;
    PyRef box;
  };
  // The last piece that went because it could never serve again.
  struct Gone {
    std::string file, reason;
    int line = 0;
    uint64_t number = 0;
  };
  struct Bucket {
    std::vector<Held> held;
    std::optional<Gone> gone;                // since when nothing was compiled here
    std::vector<guards::SourcePath> moving;  // tensors and numbers that were other ones at a later call
    std::vector<guards::GuardProgram::LostTensor>
        lost;              // whose sizes are still to be compared with those that came after
    size_t wasted = 0;     // pieces in a row that died before they could serve a second call
    bool gave_up = false;  // the limit was reached: eager from now on
    bool has_strangers = false;
    uint64_t registrations = 0;  // when its pieces' strangers were looked at last

    // Pieces from before the program said something new about callables can never serve again.
    void drop_stale();
    // Nor can those that took two classes for strangers which are so no more.
    void drop_registered();
    void add_moving(guards::SourcePath path);
    void add_other_sizes(const guards::GuardProgram::LostTensor& lost, PyObject* now);
  };
  using Slots = guards::Slots;

  explicit Pieces(const PieceMaking& making);
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // It stays where it is.
  Bucket& bucket(const Place& place);
  void add(Bucket& bucket, std::shared_ptr<Segment> segment);

  // The piece that fits, of this region or, failing that, of another; it is the bucket's first then.
  std::shared_ptr<Segment> find_call(PyCodeObject* code, Bucket& bucket, PyObject* function, const CallValues& values,
                                     Slots& slots);
  std::shared_ptr<Segment> find_rest(const Place& place, Bucket& bucket, LiveFrames& frames, Slots& slots);

  // Learns from a miss which tensors and numbers change from call to call, and from region to region.
  void note_moving(const Place& place, PyObject* function, const CallValues& values);
  // Why the newest piece did not serve. `plainly`: no value's own __repr__ is run.
  static std::string explain_miss(const Bucket& bucket, PyObject* function, const CallValues& values,
                                  bool plainly = false);

  // All of them, those that start a call first.
  std::vector<std::shared_ptr<Segment>> all() const;
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Hash {
    size_t operator()(const Place& place) const {
      auto hash_of = [](const CodePlace& at) {
        return reinterpret_cast<size_t>(at.code) * 31 + static_cast<size_t>(at.next);
      };
      size_t hash = hash_of(place.here);
      for (const CodePlace& at : place.waiting) hash = hash * 31 + hash_of(at);
      return hash;
    }
  };

  // The first that `fits`, moved to the front; or null.
  template <class Fits>
  static std::shared_ptr<Segment> take(Bucket& bucket, const Fits& fits);
  // The same among the pieces of other regions, which this one then holds, too.
  template <class Fits>
  std::shared_ptr<Segment> borrow(const Place& place, Bucket& bucket, const Fits& fits);
  void watch(Segment& segment);
  // An object that a piece looked at is gone: so is the piece.
  void forget(const Segment* segment);
  void hold_code(PyCodeObject* code);
  // A function's code is gone, and all of its pieces.
  void forget_code(PyCodeObject* code);

  PieceMaking making_;
  std::shared_ptr<const bool> self_ = std::make_shared<bool>(true);  // lives as long as this, for listeners
  std::unordered_map<Place, Bucket, Hash> buckets_;
  std::unordered_map<PyCodeObject*, std::unique_ptr<guards::Holdings>> codes_;  // of the places
};

}  // namespace firesteel::capture
