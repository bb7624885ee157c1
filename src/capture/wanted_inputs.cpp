// Keeps the wishes of the captures of each thread, one inside another.
#include "capture/wanted_inputs.h"

#include <algorithm>

namespace firesteel::capture {
namespace {

using guards::AccessKind;
using guards::Source;
using guards::SourcePath;
using guards::SourceStep;

thread_local WantedInputs* t_current = nullptr;

// Empty where a step is computed, or the root is kept alive by what was compiled.
SourcePath path_of(const Source* source) {
  SourcePath path;
  for (; source; source = source->parent) {
    const bool plain = source->kind != AccessKind::Computed && source->kind != AccessKind::Kept &&
                       source->kind != AccessKind::Handled && source->kind != AccessKind::Size;
    if (!plain) return {};
    path.insert(path.begin(), SourceStep(source->kind, source->key.get(), source->index, source->name));
  }
  return path;
}

}  // namespace

WantedInputs::WantedInputs(bool all) : outer_(t_current), all_(all) { t_current = this; }
WantedInputs::~WantedInputs() { t_current = outer_; }

bool WantedInputs::add(const Source* source) {
  SourcePath path = t_current ? path_of(source) : SourcePath();
  if (path.empty()) return false;
  t_current->found_.push_back(std::move(path));
  return true;
}

void WantedInputs::add_tensor(const Source* source) {
  if (t_current && t_current->all_) add(source);
}

bool WantedInputs::take(std::vector<SourcePath>& known) {
  const size_t before = known.size();
  for (SourcePath& path : found_) {
    if (std::find(known.begin(), known.end(), path) == known.end()) known.push_back(std::move(path));
  }
  found_.clear();
  return known.size() > before;
}

}  // namespace firesteel::capture
