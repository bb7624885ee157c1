// Files with a header that tells whether they are whole and whose they are.
#include "codegen/cpu/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <llvm/ADT/StringExtras.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/xxhash.h>

#include "base/cache_folder.h"

namespace firesteel::cpu {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "firesteel object 1";
constexpr int64_t kLimit = int64_t{512} << 20;
constexpr uint64_t kStoresBetweenLooks = 64;  // at the folder's size

struct Header {
  char magic[24] = {};
  uint64_t key_bytes = 0, object_bytes = 0, checksum = 0;
};

// What all kernels of this build share: another code generator makes other code of the same text.
std::string full_key(const std::string& key) {
  return std::string("llvm " LLVM_VERSION_STRING ", generator " FIRESTEEL_CODEGEN_HASH "\n") + key;
}

uint64_t hash(llvm::StringRef bytes) { return llvm::xxh3_64bits(bytes); }

}  // namespace

ObjectCache ObjectCache::at_hand() { return ObjectCache(cache_folder("kernels")); }

std::string ObjectCache::path(const std::string& key) const {
  const llvm::XXH128_hash_t name = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(key));
  return folder_ + "/" + llvm::utohexstr(name.high64, true, 16) + llvm::utohexstr(name.low64, true, 16) + ".o";
}

std::unique_ptr<llvm::MemoryBuffer> ObjectCache::load(const std::string& text) const {
  if (folder_.empty()) return nullptr;
  const std::string key = full_key(text), file = path(key);
  auto read =
      llvm::MemoryBuffer::getFile(file, /*IsText=*/false, /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
  if (!read) return nullptr;
  const llvm::StringRef bytes = (*read)->getBuffer();
  Header header;
  if (bytes.size() < sizeof header) return nullptr;
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool whole = std::strncmp(header.magic, kMagic, sizeof header.magic) == 0 && header.key_bytes == key.size() &&
                     header.object_bytes <= bytes.size() &&
                     bytes.size() == sizeof header + header.key_bytes + header.object_bytes;
  if (!whole || bytes.substr(sizeof header, key.size()) != key) return nullptr;
  const llvm::StringRef object = bytes.substr(sizeof header + key.size());
  if (hash(object) != header.checksum) return nullptr;
  utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // used now
  return llvm::MemoryBuffer::getMemBufferCopy(object, "firesteel kernel");
}

void ObjectCache::store(const std::string& text, llvm::StringRef object) const {
  static uint64_t stores = 0;
  if (folder_.empty()) return;
  const std::string key = full_key(text), file = path(key);
  std::string temporary = file + ".XXXXXX";
  const int opened = mkstemp(temporary.data());  // mode 0600
  if (opened < 0) return;
  Header header;
  std::strncpy(header.magic, kMagic, sizeof header.magic - 1);
  header.key_bytes = key.size();
  header.object_bytes = object.size();
  header.checksum = hash(object);
  auto put = [&](const void* data, size_t size) { return write(opened, data, size) == static_cast<ssize_t>(size); };
  const bool written = put(&header, sizeof header) && put(key.data(), key.size()) && put(object.data(), object.size());
  const bool closed = close(opened) == 0;
  // Whoever comes last wins; both have the same code.
  if (!written || !closed || std::rename(temporary.c_str(), file.c_str()) != 0) unlink(temporary.c_str());
  if (stores++ % kStoresBetweenLooks == 0) keep_within_limit();
}

void ObjectCache::keep_within_limit() const {
  const char* asked = std::getenv("FIRESTEEL_CACHE_LIMIT");
  const int64_t limit = asked ? std::max<int64_t>(std::atoll(asked), 0) : kLimit;
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, failed)) {
    const auto bytes = static_cast<int64_t>(entry.file_size(failed));
    const auto used = entry.last_write_time(failed);
    if (failed) continue;
    entries.push_back({used, bytes, entry.path()});
    total += bytes;
  }
  if (total <= limit) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit / 4 * 3) return;
    fs::remove(entry.path, failed);
    total -= entry.bytes;
  }
}

}  // namespace firesteel::cpu
