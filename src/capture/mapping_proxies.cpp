// The dict behind a proxy: CPython tells it to its collector only, which is also the way that the guards go.
#include "capture/mapping_proxies.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "capture/capture.h"
#include "python/errors.h"

namespace firesteel::capture {
namespace {

using python::checked;

PyObject* referents() {
  static PyObject* function =
      checked(PyObject_GetAttrString(checked(PyImport_ImportModule("gc")).get(), "get_referents")).release();
  return function;
}

}  // namespace

PyRef dict_behind(Capture& capture, PyObject* object) {
  if (!Py_IS_TYPE(object, &PyDictProxy_Type)) return {};
  PyRef held = checked(PyObject_CallOneArg(referents(), object));
  if (PyList_GET_SIZE(held.get()) != 1 || !is_mapping(PyList_GET_ITEM(held.get(), 0))) return {};
  PyRef dict = PyRef::borrow(PyList_GET_ITEM(held.get(), 0));
  const Source* source = capture.source_of(object);
  // What an object made here holds (`inspect.signature(f).parameters`), or what a class has been asked for.
  if (!source && capture.source_of(dict.get())) return capture.birth_of(object) < 0 ? PyRef() : dict;
  if (!source) return capture.made(dict);
  const Source* way = capture.sources.computed(referents(), source, nullptr);
  return capture.admit(dict.get(), capture.sources.item(way, int64_t{0}));
}

PyRef passed_on(Capture& capture, PyObject* object, PyObject* name) {
  constexpr auto kNames = std::to_array<std::string_view>({"get", "items", "keys", "values", "copy"});
  if (std::find(kNames.begin(), kNames.end(), python::text_of(name)) == kNames.end()) return {};
  const PyRef shown = dict_behind(capture, object);
  return shown ? find_attribute(capture, shown.get(), name) : PyRef();
}

PyRef make_proxy(Capture& capture, PyObject* callable, CallArgs& args) {
  const bool plain = args.values.size() == 1 && !args.keyword_count() && is_mapping(args[0]);
  if (!plain || capture.is_unknown(args[0])) capture.stop(BreakReason::Creation, "mappingproxy");
  return capture.made(args.call(callable));
}

}  // namespace firesteel::capture
