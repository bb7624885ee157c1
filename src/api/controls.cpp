// The controls for C++ callers: what they tell the trace that runs on this thread.
#include "firesteel/controls.h"

#include <filesystem>

#include "aot/recorder.h"
#include "base/error.h"

namespace firesteel {

std::string GraphBreak::str() const {
  return fmt::format("{}:{}: {}", std::filesystem::path(file).filename().string(), line, reason);
}

bool is_compiling() noexcept { return is_tracing(); }

void graph_break(const std::string& message, std::source_location where) {
  Recorder* recorder = Recorder::current();
  if (!recorder) return;
  recorder->fail_graph_break(
      {fmt::format("graph_break() is called{}{} [FS-GRAPH-BREAK]", message.empty() ? "" : ": ", message),
       where.file_name(), where.line()});
}

namespace detail {

struct NamedPlace::Outer {
  Recorder& recorder;
  SourceRef place;
};

NamedPlace::NamedPlace(const std::string& name, const std::source_location& where) {
  Recorder* recorder = Recorder::current();
  if (!recorder) return;
  auto file = std::make_shared<const SourceFile>(SourceFile{where.file_name()});
  auto place =
      std::make_shared<const SourceLocation>(SourceLocation{std::move(file), name, static_cast<int>(where.line())});
  outer_ = std::make_unique<Outer>(Outer{*recorder, std::exchange(recorder->named_place, std::move(place))});
}

NamedPlace::~NamedPlace() {
  if (outer_) outer_->recorder.named_place = std::move(outer_->place);
}

void break_at_disabled(const std::string& name, const std::string& reason, const std::source_location& where) {
  Recorder* recorder = Recorder::current();
  if (!recorder) return;
  recorder->fail_graph_break(
      {fmt::format("`{}` is disabled{}{} [FS-DISABLED]", name, reason.empty() ? "" : ": ", reason), where.file_name(),
       where.line()});
}

}  // namespace detail
}  // namespace firesteel
