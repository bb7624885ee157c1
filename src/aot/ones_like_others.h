// Calls that give the same for a size of one as for others, however they ask.
#pragma once

#include "firesteel/export.h"

namespace firesteel {

// While one lives, a size that data gives is none of one where that is asked, and nothing is required of a run: torch's
// assignment to an index drops leading sizes of one, which broadcasting would bring back.
class FIRESTEEL_API OnesLikeOthers {
 public:
  OnesLikeOthers();
  ~OnesLikeOthers();
  OnesLikeOthers(const OnesLikeOthers&) = delete;
  OnesLikeOthers& operator=(const OnesLikeOthers&) = delete;

 private:
  bool before_;
};

}  // namespace firesteel
