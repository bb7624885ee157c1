// Walks Python frames and remembers what was found, so that asking at every recorded operator stays cheap.
#include "python/user_frames.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace firesteel::python {
namespace {

// What is known of one code object during a trace. It holds the code: an address may be used again once the code is
// gone.
struct CodeEntry {
  PyRef code;
  bool is_user = false;
  std::shared_ptr<const SourceFile> file;
  std::unordered_map<int, SourceRef> by_instruction;  // finding the line of an instruction reads the whole line table
  std::unordered_map<int, SourceRef> by_line;
};

// All of this is guarded by the GIL.
struct SourceCache {
  size_t scopes = 0;
  std::unordered_map<PyObject*, CodeEntry> codes;
  std::unordered_map<std::string, std::shared_ptr<const SourceFile>> files;
};

SourceCache& cache() {
  static auto* cache = new SourceCache;  // never destroyed: it would outlive the interpreter
  return *cache;
}

std::vector<std::string>& library_folders() {
  static auto* folders = new std::vector<std::string>;
  return *folders;
}

// The frame that called firesteel.trace on this thread; only compared, never read.
thread_local PyFrameObject* t_trace_caller = nullptr;
thread_local uint64_t t_trace_number = 0;

thread_local OwnSources* t_own_sources = nullptr;

CodeEntry& entry_of(PyCodeObject* code) {
  auto [found, inserted] = cache().codes.try_emplace(reinterpret_cast<PyObject*>(code));
  CodeEntry& entry = found->second;
  if (!inserted) return entry;
  entry.code = PyRef::borrow(reinterpret_cast<PyObject*>(code));
  std::string path(text_of(code->co_filename));
  entry.is_user = !is_library(path);
  auto& file = cache().files[path];
  if (!file) file = std::make_shared<const SourceFile>(SourceFile{std::move(path)});
  entry.file = file;
  return entry;
}

// Calls visit(frame, code) from the innermost frame outwards until it returns false.
template <class F>
void each_frame(F&& visit) {
  PyRef frame = PyRef::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.get());
    PyRef code = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    if (!visit(raw, reinterpret_cast<PyCodeObject*>(code.get()))) return;
    frame = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
}

SourceRef source_at(CodeEntry& entry, PyFrameObject* frame, PyCodeObject* code) {
  SourceRef& known = entry.by_instruction[PyFrame_GetLasti(frame)];
  if (known) return known;
  const int line = PyFrame_GetLineNumber(frame);
  SourceRef& of_line = entry.by_line[line];
  if (!of_line) {
    of_line =
        std::make_shared<const SourceLocation>(SourceLocation{entry.file, std::string(text_of(code->co_name)), line});
  }
  known = of_line;
  return known;
}

}  // namespace

bool is_library(std::string_view path) {
  const auto& folders = library_folders();
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return path.starts_with(folder); });
}

bool inside_trace() { return t_trace_caller != nullptr; }
uint64_t trace_number() { return t_trace_number; }

void set_library_folders(std::vector<std::string> folders) { library_folders() = std::move(folders); }

SourceScope::SourceScope() : outer_caller_(t_trace_caller) {
  ++cache().scopes;
  PyRef caller = PyRef::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  t_trace_caller = reinterpret_cast<PyFrameObject*>(caller.get());
  ++t_trace_number;
}

SourceScope::~SourceScope() {
  t_trace_caller = outer_caller_;
  if (--cache().scopes > 0) return;
  // Dropping a code object may run Python: empty the cache first.
  auto codes = std::exchange(cache().codes, {});
  cache().files.clear();
}

OwnSources::OwnSources() : outer_(std::exchange(t_own_sources, this)) {}
OwnSources::~OwnSources() { t_own_sources = outer_; }
const OwnSources* OwnSources::current() { return t_own_sources; }

SourceRef OwnSources::copy_of(const SourceRef& source) {
  const auto known = std::find(originals_.begin(), originals_.end(), source);
  if (known != originals_.end()) return copies_[known - originals_.begin()];
  originals_.push_back(source);
  return copies_.emplace_back(std::make_shared<const SourceLocation>(*source));
}

SourceRef user_source() {
  if (!Py_IsInitialized()) return nullptr;
  Gil gil;
  std::optional<SourceScope> alone;
  if (cache().scopes == 0) alone.emplace();
  SourceRef found;
  each_frame([&](PyFrameObject* frame, PyCodeObject* code) {
    CodeEntry& entry = entry_of(code);
    if (entry.is_user) found = source_at(entry, frame, code);
    return !entry.is_user;
  });
  return found && t_own_sources ? t_own_sources->copy_of(found) : found;
}

std::vector<SourceRef> whole_stack() {
  std::vector<SourceRef> stack;
  each_frame([&](PyFrameObject* frame, PyCodeObject* code) {
    if (frame != t_trace_caller) stack.push_back(source_at(entry_of(code), frame, code));
    return frame != t_trace_caller;
  });
  return stack;
}

std::vector<UserLine> user_lines(size_t limit) {
  std::vector<UserLine> lines;
  each_frame([&](PyFrameObject* frame, PyCodeObject* code) {
    // Frames outside the traced function say nothing of what went wrong inside it.
    if (frame == t_trace_caller && !lines.empty()) return false;
    std::string path(text_of(code->co_filename));
    if (!is_library(path)) {
      UserLine& line = lines.emplace_back();
      line.code = PyRef::borrow(reinterpret_cast<PyObject*>(code));
      line.globals = PyRef::steal(PyFrame_GetGlobals(frame));
      line.file = std::move(path);
      line.function = text_of(code->co_name);
      line.line = PyFrame_GetLineNumber(frame);
      line.instruction = PyFrame_GetLasti(frame);
    }
    return frame != t_trace_caller && lines.size() < limit;
  });
  return lines;
}

}  // namespace firesteel::python
