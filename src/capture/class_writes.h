// Attributes of classes that captured code sets: they are set when the graph has run. Until then the class is as it
// was, and reads that are captured find what was set last.
#pragma once

#include <vector>

#include "capture/capture.h"

namespace firesteel::capture {

// The writes of one capture. While it lives it is that of its thread.
class ClassWrites {
 public:
  explicit ClassWrites(Capture& capture);
  ~ClassWrites();
  ClassWrites(const ClassWrites&) = delete;
  ClassWrites& operator=(const ClassWrites&) = delete;

  struct Write {
    PyRef type, name, value;
  };
  // `Class.name = value`. False where that does more than to set it, or where C code looks for it by itself.
  static bool set(Capture& capture, PyObject* type, PyObject* name, PyObject* value);
  // What was set on the class or the first one in its order that has the name; empty where nothing was.
  static PyRef find(const Capture& capture, PyTypeObject* type, PyObject* name);
  static std::vector<Write> left(const Capture& capture);

 private:
  Capture& capture_;
  ClassWrites* outer_;
  std::vector<Write> writes_;
};

}  // namespace firesteel::capture
