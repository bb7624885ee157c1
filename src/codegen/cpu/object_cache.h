// Machine code on disk: one file a kernel, found by all that can change it, shared by processes.
//
// The folder holds code that will run, so it must be the user's alone: mode 0700, and owned by who runs the process.
// Whatever is damaged, foreign or half written is ignored and made again; a disk that is full or read-only means no
// cache, and no error.
#pragma once

#include <memory>
#include <string>

#include <llvm/ADT/StringRef.h>
#include <llvm/Support/MemoryBuffer.h>

namespace firesteel::cpu {

class ObjectCache {
 public:
  static ObjectCache at_hand();

  // `key`: the text of the kernel and of the machine it is for. Null where there is none.
  std::unique_ptr<llvm::MemoryBuffer> load(const std::string& key) const;
  void store(const std::string& key, llvm::StringRef object) const;

 private:
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}
  std::string path(const std::string& key) const;
  // Removes what was not used for longest, where the whole is larger than FIRESTEEL_CACHE_LIMIT (bytes).
  void keep_within_limit() const;

  std::string folder_;  // empty: no cache
};

}  // namespace firesteel::cpu
