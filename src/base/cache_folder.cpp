// Looks at the environment, and at who owns what is there.
#include "base/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace firesteel {
namespace {

std::string user_folder() {
  if (const char* off = std::getenv("FIRESTEEL_CACHE"); off && std::strcmp(off, "0") == 0) return {};
  if (const char* named = std::getenv("FIRESTEEL_CACHE_DIR"); named && *named) return named;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::string(cache) + "/firesteel";
  if (const char* home = std::getenv("HOME"); home && *home == '/') return std::string(home) + "/.cache/firesteel";
  return {};
}

bool is_users_alone(const std::string& folder) {
  struct stat found {};
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & 077) == 0;
}

}  // namespace

std::string cache_folder(const char* name) {
  const std::string base = user_folder();
  if (base.empty()) return {};
  std::string folder = base + "/" + name;
  std::error_code failed;
  std::filesystem::create_directories(base, failed);
  mkdir(folder.c_str(), 0700);
  return is_users_alone(folder) ? folder : std::string();
}

}  // namespace firesteel
