// Keeps the settings, and compares sources with names and patterns.
#include "capture/size_settings.h"

#include <algorithm>
#include <optional>
#include <regex>

namespace firesteel::capture {
namespace {

struct Pattern {
  std::string text;
  std::optional<std::regex> regex;
  int64_t dim;
};
using Patterns = std::vector<Pattern>;

Patterns& open_sources() {
  static auto* patterns = new Patterns;
  return *patterns;
}
Patterns& unbacked_sources() {
  static auto* patterns = new Patterns;
  return *patterns;
}

void fill(Patterns& table, const std::vector<std::string>& patterns) {
  static const auto* with_dim = new std::regex(R"((.*):(\d{1,2}))");
  table.clear();
  for (const std::string& given : patterns) {
    std::smatch parts;
    const bool has_dim = std::regex_match(given, parts, *with_dim);
    Pattern pattern{has_dim ? parts[1].str() : given, {}, has_dim ? std::stoll(parts[2].str()) : kAnyDim};
    try {
      pattern.regex.emplace(pattern.text);
    } catch (const std::regex_error&) {  // a name alone: brackets mean themselves
    }
    table.push_back(std::move(pattern));
  }
}

bool names(const Patterns& table, const guards::Source& source, int64_t dim) {
  if (table.empty()) return false;
  const guards::Source* root = &source;
  while (root->parent) root = root->parent;
  if (root->kind != guards::AccessKind::Argument) return false;
  const std::string path = source.str(), first = root->str();
  const std::string name = "L['" + first + "']" + (path.starts_with(first) ? path.substr(first.size()) : "." + path);
  return std::any_of(table.begin(), table.end(), [&](const Pattern& known) {
    if (known.dim != kAnyDim && dim != kAnyDim && known.dim != dim) return false;
    return known.text == name ||
           (known.regex && std::regex_search(name, *known.regex, std::regex_constants::match_continuous));
  });
}

}  // namespace

SizeSettings& size_settings() {
  static auto* settings = new SizeSettings;
  return *settings;
}

void set_open_sources(const std::vector<std::string>& patterns, const std::vector<std::string>& unbacked) {
  fill(open_sources(), patterns);
  fill(unbacked_sources(), unbacked);
}

bool is_open_source(const guards::Source& source, int64_t dim) { return names(open_sources(), source, dim); }
bool is_unbacked_source(const guards::Source& source, int64_t dim) { return names(unbacked_sources(), source, dim); }

bool is_open_value(int64_t value) {
  const std::vector<int64_t>& open = size_settings().open_values;
  return std::find(open.begin(), open.end(), value) != open.end();
}

}  // namespace firesteel::capture
