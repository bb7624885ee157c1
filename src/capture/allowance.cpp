// Asks the watcher, where there is one.
#include "capture/allowance.h"

#include <algorithm>
#include <regex>

#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

// Guarded by the GIL; never destroyed.
python::PyRef& watcher() {
  static auto* held = new python::PyRef;
  return *held;
}

using Patterns = std::vector<std::pair<std::string, std::regex>>;
Patterns& open_sources() {
  static auto* patterns = new Patterns;
  return *patterns;
}
Patterns& unbacked_sources() {
  static auto* patterns = new Patterns;
  return *patterns;
}

void fill(Patterns& table, const std::vector<std::string>& patterns) {
  table.clear();
  for (const std::string& pattern : patterns) {
    try {
      table.emplace_back(pattern, std::regex(pattern));
    } catch (const std::regex_error&) {
      table.emplace_back(pattern, std::regex());  // a name alone: brackets mean themselves
    }
  }
}

bool names(const Patterns& table, const guards::Source& source) {
  if (table.empty()) return false;
  const guards::Source* root = &source;
  while (root->parent) root = root->parent;
  if (root->kind != guards::AccessKind::Argument) return false;
  const std::string path = source.str(), first = root->str();
  const std::string name = "L['" + first + "']" + (path.starts_with(first) ? path.substr(first.size()) : "." + path);
  return std::any_of(table.begin(), table.end(), [&](const auto& known) {
    return known.first == name || std::regex_search(name, known.second, std::regex_constants::match_continuous);
  });
}

}  // namespace

FixedNumbers& fixed_numbers() {
  static FixedNumbers fixed;
  return fixed;
}

CapturedData& captured_data() {
  static CapturedData data;
  return data;
}

void set_open_sources(const std::vector<std::string>& patterns, const std::vector<std::string>& unbacked) {
  fill(open_sources(), patterns);
  fill(unbacked_sources(), unbacked);
}

bool is_open_source(const guards::Source& source) { return names(open_sources(), source); }
bool is_unbacked_source(const guards::Source& source) { return names(unbacked_sources(), source); }

bool& ignores_size_marks() {
  static bool ignores = false;
  return ignores;
}

bool& lifts_tensors() {
  static bool lifts = false;
  return lifts;
}

void set_compile_watcher(PyObject* given) {
  watcher() = given == Py_None ? python::PyRef() : python::PyRef::borrow(given);
}

Allowance ask_allowance(size_t own_limit, const std::string& function, size_t held, bool keeps_numbers,
                        const std::function<std::string()>& why) {
  Allowance allowed;
  if (const python::PyRef asked = watcher()) {
    const std::string reason = held ? why() : std::string();
    python::PyRef answer =
        checked(PyObject_CallFunction(asked.get(), "snsO", function.c_str(), static_cast<Py_ssize_t>(held),
                                      reason.c_str(), keeps_numbers ? Py_True : Py_False));
    Py_ssize_t limit = 0;
    int fails = 0;
    python::check(PyArg_ParseTuple(answer.get(), "np", &limit, &fails) != 0);
    if (limit > 0) allowed.limit = static_cast<size_t>(limit);
    allowed.fails = fails != 0;
  }
  if (own_limit) allowed.limit = own_limit;
  return allowed;
}

}  // namespace firesteel::capture
