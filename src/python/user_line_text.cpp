// Shows a place in the user's program as text: path, source line, carets under the expression.
#include <opcode.h>

#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "python/user_frames.h"

namespace firesteel::python {
namespace {

constexpr size_t kFramesShown = 6;

std::string short_path(const std::string& path) {
  std::error_code failed;
  const std::string here = std::filesystem::current_path(failed).string() + "/";
  return !failed && path.starts_with(here) ? path.substr(here.size()) : path;
}

std::string source_text(const UserLine& where) {
  ErrorAside aside;
  PyRef linecache = PyRef::steal(PyImport_ImportModule("linecache"));
  PyRef globals = where.globals ? where.globals : PyRef::borrow(Py_None);
  PyRef text;
  if (linecache) {
    text = PyRef::steal(
        PyObject_CallMethod(linecache.get(), "getline", "siO", where.file.c_str(), where.line, globals.get()));
  }
  std::string line(text_of(text.get()));
  PyErr_Clear();
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ')) line.pop_back();
  return line;
}

// Code points in UTF-8 text: every byte but continuation bytes.
size_t width(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

// The part of the line that the instruction covers, as byte offsets; empty where Python does not know or it is all of
// it.
std::pair<size_t, size_t> covered(const UserLine& where, const std::string& line, size_t indent) {
  if (!where.code || where.instruction < 0) return {0, 0};
  int first_line = 0, first = 0, last_line = 0, last = 0;
  auto* code = reinterpret_cast<PyCodeObject*>(where.code.get());
  if (!PyCode_Addr2Location(code, where.instruction, &first_line, &first, &last_line, &last)) return {0, 0};
  if (first_line != where.line || first < static_cast<int>(indent) || last < 0) return {0, 0};
  const size_t begin = static_cast<size_t>(first);
  const size_t end = last_line > first_line ? line.size() : static_cast<size_t>(last);
  if (end > line.size() || begin >= end || (begin == indent && end == line.size())) return {0, 0};
  return {begin, end};
}

// The code behind a callable: a function, method, partial, module or instance with a `__call__` in Python.
PyRef code_of(PyObject* callable) {
  PyRef current = PyRef::borrow(callable);
  for (int depth = 0; depth < 8 && current; ++depth) {
    if (PyFunction_Check(current.get())) return PyRef::borrow(PyFunction_GET_CODE(current.get()));
    PyRef next;
    for (const char* step : {"__func__", "func", "forward", "__wrapped__"}) {
      next = attribute(current.get(), step);
      if (next) break;
    }
    if (!next) next = attribute(reinterpret_cast<PyObject*>(Py_TYPE(current.get())), "__call__");
    current = std::move(next);
  }
  return {};
}

}  // namespace

std::optional<UserLine> return_line(PyObject* function) {
  ErrorAside aside;
  PyRef code_ref = code_of(function);
  if (!code_ref) return std::nullopt;
  auto* code = reinterpret_cast<PyCodeObject*>(code_ref.get());
  UserLine where;
  where.code = code_ref;
  where.file = text_of(code->co_filename);
  if (is_library(where.file)) return std::nullopt;
  where.function = text_of(code->co_name);
  where.line = code->co_firstlineno;
  PyRef bytes = PyRef::steal(PyCode_GetCode(code));
  std::set<int> lines;
  for (Py_ssize_t at = 0; bytes && at < PyBytes_GET_SIZE(bytes.get()); at += 2) {
    const auto opcode = static_cast<unsigned char>(PyBytes_AS_STRING(bytes.get())[at]);
    bool returns = opcode == RETURN_VALUE;
#ifdef RETURN_CONST
    returns = returns || opcode == RETURN_CONST;
#endif
    if (returns) lines.insert(PyCode_Addr2Line(code, static_cast<int>(at)));
  }
  if (lines.size() == 1 && *lines.begin() > 0) where.line = *lines.begin();
  PyErr_Clear();
  return where;
}

std::string show(const UserLine& where) {
  std::string place = fmt::format("  {}:{}", short_path(where.file), where.line);
  const std::string line = source_text(where);
  const size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
  if (indent == line.size()) return place;
  std::string text = fmt::format("{}  {}", place, std::string_view(line).substr(indent));
  const auto [begin, end] = covered(where, line, indent);
  if (begin < end) {
    const std::string_view view(line);
    const size_t before = width(place) + 2 + width(view.substr(indent, begin - indent));
    text += fmt::format("\n{:{}}{:^>{}}", "", before, "", width(view.substr(begin, end - begin)));
  }
  return text;
}

std::string show_user_line() {
  // Outside a trace the frames around the call are the user's whole program: its traceback shows them.
  const std::vector<UserLine> lines = user_lines(inside_trace() ? kFramesShown + 1 : 1);
  if (lines.empty()) return {};
  std::string text = show(lines.front());
  std::string inside;
  for (size_t i = lines.size(); i-- > 1;) {
    const std::string file = std::filesystem::path(lines[i].file).filename().string();
    inside += fmt::format("{}{} ({}:{})", inside.empty() ? "" : " → ", lines[i].function, file, lines[i].line);
  }
  if (!inside.empty()) text += "\n  inside: " + inside;
  return text;
}

}  // namespace firesteel::python
