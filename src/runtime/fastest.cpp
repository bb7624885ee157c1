// The contests, their answers, and the file that keeps them.
#include "runtime/fastest.h"

#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/cache_folder.h"

namespace firesteel {
namespace {

constexpr int kRounds = 3;          // that are timed
constexpr double kEnough = 0.1;     // seconds after which no further round begins
constexpr double kMargin = 0.95;    // of the rule's time: what must be reached to win against it
constexpr double kMostWork = 6e10;  // some half a second: repeated only by those who ask for it
constexpr off_t kLargestFile = 1 << 20;

// The processor as it names itself, with its model: another one has other answers.
std::string machine() {
  std::array<uint32_t, 12> words{};
  for (uint32_t part = 0; part < 3; ++part)
    __get_cpuid(0x80000002 + part, &words[part * 4], &words[part * 4 + 1], &words[part * 4 + 2], &words[part * 4 + 3]);
  std::string name(reinterpret_cast<const char*>(words.data()), sizeof words);
  uint32_t model = 0, other = 0;
  __get_cpuid(1, &model, &other, &other, &other);
  name = fmt::format("{} {:x} torch {}", name.c_str(), model, FIRESTEEL_TORCH_VERSION);
  for (char& letter : name) {
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '.') letter = '_';
  }
  return name;
}

uint64_t hash(const Contest& contest) {
  uint64_t state = 0xcbf29ce484222325;
  const auto mix = [&](uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15;
    state ^= state >> 32;
  };
  for (const char* letter = contest.kind; *letter; ++letter) mix(static_cast<unsigned char>(*letter));
  mix(static_cast<uint64_t>(at::get_num_threads()));
  for (int64_t fact : contest.facts) mix(static_cast<uint64_t>(fact));
  return state;
}

class Answers {
 public:
  static Answers& of_process() {
    static auto* answers = new Answers();  // never destroyed: calls may come late
    return *answers;
  }

  // None where a contest is to be held; the rule's where none may be.
  std::optional<size_t> find(uint64_t key, const Contest& contest, size_t ways) {
    std::lock_guard lock(mutex_);
    if (!is_read_) read();
    if (!is_measured_) return contest.by_rule;
    const auto found = known_.find(key);
    if (found == known_.end()) return std::nullopt;
    if (found->second < ways) return found->second;
    known_.erase(found);  // another version's: it had more ways
    return std::nullopt;
  }

  // The first answer stays: another thread's may have come in between.
  size_t keep(uint64_t key, const Contest& contest, size_t way) {
    std::lock_guard lock(mutex_);
    const auto [entry, is_new] = known_.emplace(key, way);
    if (is_new)
      append(fmt::format("{:016x} = {}; {}, {} threads, {}\n", key, way, contest.kind, at::get_num_threads(),
                         fmt::join(contest.facts, " ")));
    return entry->second;
  }

  void forget() {
    std::lock_guard lock(mutex_);
    known_.clear();
    is_read_ = false;
  }

  std::atomic<uint64_t> held = 0, loaded = 0;

 private:
  Answers() {
    pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                   [] { of_process().mutex_.unlock(); });
  }

  static std::string path() {
    static const std::string name = machine();
    const std::string folder = cache_folder("choices");
    return folder.empty() ? folder : folder + "/" + name + ".txt";
  }

  // A line that is not whole, or of no known form, is nobody's answer. Of two for one key the first counts.
  void read() {
    is_read_ = true;
    const char* set = std::getenv("FIRESTEEL_MEASURE");
    is_measured_ = !(set && std::string_view(set) == "0");
    const std::string file = path();
    if (file.empty()) return;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      uint64_t key = 0;
      unsigned way = 0;
      char end = 0;
      if (std::sscanf(line.c_str(), "%16" SCNx64 " = %1u%c", &key, &way, &end) != 3 || end != ';') continue;
      if (known_.emplace(key, way).second) ++loaded;
    }
  }

  // One write to the end of the file: lines of several processes do not mix.
  static void append(const std::string& line) {
    const std::string file = path();
    if (file.empty()) return;
    const int opened = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (opened < 0) return;
    if (lseek(opened, 0, SEEK_END) < kLargestFile) {
      [[maybe_unused]] const ssize_t written = write(opened, line.data(), line.size());
    }
    close(opened);
  }

  std::mutex mutex_;
  std::unordered_map<uint64_t, size_t> known_;
  bool is_read_ = false;
  bool is_measured_ = true;
};

double seconds_of(c10::function_ref<void(size_t)> run, size_t way) {
  const auto start = std::chrono::steady_clock::now();
  run(way);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

size_t hold(const Contest& contest, size_t ways, c10::function_ref<void(size_t)> run) {
  std::vector<double> best(ways, std::numeric_limits<double>::infinity());
  double spent = 0;
  for (int round = 0; round <= kRounds && (round < 2 || spent < kEnough); ++round) {
    for (size_t way = 0; way < ways; ++way) {
      const double taken = seconds_of(run, way);
      spent += taken;
      if (round > 0) best[way] = std::min(best[way], taken);  // libraries prepare themselves in the first
    }
  }
  size_t winner = contest.by_rule;
  for (size_t way = 0; way < ways; ++way) {
    const double limit = best[winner] * (winner == contest.by_rule ? kMargin : 1);
    if (best[way] < limit) winner = way;
  }
  return winner;
}

}  // namespace

int64_t size_class(int64_t size) {
  if (size < 8) return size;
  const int shift = 61 - __builtin_clzll(static_cast<uint64_t>(size));  // three bits stay
  return size >> shift << shift;
}

size_t fastest_way(const Contest& contest, size_t ways, c10::function_ref<void(size_t)> run) {
  const bool by_rule_alone =
      contest.work > kMostWork || at::globalContext().deterministicAlgorithms() || at::in_parallel_region();
  if (by_rule_alone) return contest.by_rule;
  const uint64_t key = hash(contest);
  Answers& answers = Answers::of_process();
  if (const std::optional<size_t> known = answers.find(key, contest, ways)) return *known;
  ++answers.held;
  return answers.keep(key, contest, hold(contest, ways, run));
}

ContestCounters contest_counters() { return {Answers::of_process().held, Answers::of_process().loaded}; }
void reset_contest_counters() { Answers::of_process().held = Answers::of_process().loaded = 0; }
void forget_contests() { Answers::of_process().forget(); }

}  // namespace firesteel
