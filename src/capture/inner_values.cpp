// Finds and guards the values of objects over builtin classes.
#include "capture/inner_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "python/constants.h"
#include "python/errors.h"

namespace firesteel::capture {

PyObject* plain_form(PyObject* object) {
  struct Form {
    PyTypeObject* type;
    PyObject* function;
  };
  static const auto forms = [] {
    const std::pair<PyTypeObject*, const char*> names[] = {{&PyLong_Type, "__int__"},
                                                           {&PyFloat_Type, "__float__"},
                                                           {&PyUnicode_Type, "__str__"},
                                                           {&PyComplex_Type, "__complex__"},
                                                           {&PyBytes_Type, "__bytes__"}};
    std::vector<Form> made;
    for (const auto& [type, name] : names)
      made.push_back(
          {type, python::checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name)).release()});
    return made;
  }();
  auto found =
      std::find_if(forms.begin(), forms.end(), [&](const Form& form) { return PyObject_TypeCheck(object, form.type); });
  return found == forms.end() || Py_IS_TYPE(object, found->type) ? nullptr : found->function;
}

// C code reads what an object of a class over int, str and the like is without asking anybody.
void Capture::guard_inner_value(PyObject* value, const Source* source) {
  PyObject* plain = plain_form(value);
  if (!plain) return;
  if (python::is_enum_member(value)) {
    add_guard({GuardKind::Identity, source, PyRef::borrow(value)});
  } else {
    add_guard({GuardKind::Constant, sources.computed(plain, source, nullptr),
               python::checked(PyObject_CallOneArg(plain, value))});
  }
}

}  // namespace firesteel::capture
