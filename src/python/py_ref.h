// Owned references to Python objects, and the lock they need.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace firesteel::python {

// Holds the GIL for a scope. Threads that torch started, and those that gave the GIL up, may take it at any time.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Gives the GIL up for a scope.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// One owned reference. Made, copied and dropped with the GIL held.
class PyRef {
 public:
  PyRef() = default;
  static PyRef steal(PyObject* object) { return PyRef(object); }
  static PyRef borrow(PyObject* object) {
    Py_XINCREF(object);
    return PyRef(object);
  }

  PyRef(const PyRef& other) : object_(other.object_) { Py_XINCREF(object_); }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit PyRef(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// A reference that may be dropped on any thread, also after the interpreter has gone (then it is left to the process's
// end).
template <class T>
std::shared_ptr<T> share_across_threads(T value) {
  return std::shared_ptr<T>(new T(std::move(value)), [](T* held) {
    if (!Py_IsInitialized()) return;
    Gil gil;
    delete held;
  });
}

// The text of a str; empty for anything else.
inline std::string_view text_of(PyObject* object) {
  if (!object || !PyUnicode_Check(object)) return {};
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &size);
  if (!data) {
    PyErr_Clear();  // lone surrogates
    return {};
  }
  return {data, static_cast<size_t>(size)};
}

inline PyRef new_text(std::string_view text) {
  return PyRef::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

// An attribute, or nothing where it is missing or its getter raised.
inline PyRef attribute(PyObject* object, const char* name) {
  PyRef value = PyRef::steal(object ? PyObject_GetAttrString(object, name) : nullptr);
  if (!value) PyErr_Clear();
  return value;
}

// Sets the pending Python error aside for a scope, so that what explains an error cannot destroy it.
class ErrorAside {
 public:
  ErrorAside() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorAside() { PyErr_Restore(type_, value_, traceback_); }
  ErrorAside(const ErrorAside&) = delete;
  ErrorAside& operator=(const ErrorAside&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

}  // namespace firesteel::python
