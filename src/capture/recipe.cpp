// Making values from recipes, and applying writes.
#include "capture/recipe.h"

#include <Python.h>

#include <unordered_set>

#include "capture/callables.h"
#include "capture/exception_fields.h"
#include "capture/journal.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::check;
using python::checked;

PyRef new_set(PyTypeObject* type, const std::vector<PyRef>& items) {
  PyRef set = checked(type == &PySet_Type ? PySet_New(nullptr) : PyFrozenSet_New(nullptr));
  for (const PyRef& item : items) check(PySet_Add(set.get(), item.get()) == 0);
  return set;
}

PyRef new_tuple(const std::vector<PyRef>& items) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) PyTuple_SET_ITEM(tuple.get(), i, PyRef(items[i]).release());
  return tuple;
}

void set_field(PyObject*& field, PyRef value) {
  PyRef old = PyRef::steal(field);
  field = value.release();
}

void update_dict(PyObject* object, PyObject* entries) {
  PyRef own = checked(PyObject_GenericGetDict(object, nullptr));
  check(PyDict_Update(own.get(), entries) == 0);
}

}  // namespace

void RecipeBook::settle(guards::Holdings& holdings) {
  std::unordered_set<PyObject*> known;
  auto take = [&](PyRef& object) {
    // What no guard knows may have been made for these recipes alone.
    PyObject* held = object.get();
    if (!holdings.holds_weakly(held)) {
      holdings.keep(held);
    } else if (known.insert(held).second) {
      pins.push_back(held);
    }
    object = {};
    return held;
  };
  for (Recipe& recipe : recipes) recipe.held = take(recipe.object);
  for (Write& write : writes) write.held = take(write.key);
}

std::vector<PyRef> Cook::parts(const Recipe& recipe) {
  std::vector<PyRef> made;
  made.reserve(recipe.parts.size());
  for (int32_t part : recipe.parts) made.push_back(make(part));
  return made;
}

PyRef Cook::make(int32_t index) {
  const Recipe& recipe = book_.recipes[index];
  switch (recipe.kind) {
    case RecipeKind::Nothing:
      return {};
    case RecipeKind::Constant:
      return PyRef::borrow(recipe.held);
    case RecipeKind::Load:
      return loads_[recipe.index];
    case RecipeKind::Output:
      return outputs_[recipe.index];
    case RecipeKind::Number: {
      PyObject* output = outputs_[recipe.index].get();
      return python::is_tensor(output) ? checked(PyObject_CallMethod(output, "item", nullptr)) : PyRef::borrow(output);
    }
    default:
      if (!made_[index]) made_[index] = made_from(index, recipe);
      return made_[index];
  }
}

PyRef Cook::made_from(int32_t index, const Recipe& recipe) {
  switch (recipe.kind) {
    case RecipeKind::Tuple: {
      PyRef tuple = new_tuple(parts(recipe));
      if (!recipe.held) return tuple;
      auto* type = reinterpret_cast<PyTypeObject*>(recipe.held);
      PyRef args = checked(PyTuple_Pack(1, tuple.get()));
      return checked(PyTuple_Type.tp_new(type, args.get(), nullptr));
    }
    case RecipeKind::List: {
      PyRef list = made_[index] = checked(PyList_New(0));
      for (int32_t part : recipe.parts) check(PyList_Append(list.get(), make(part).get()) == 0);
      return list;
    }
    case RecipeKind::Dict: {
      PyRef dict = made_[index] = checked(PyDict_New());
      for (size_t i = 0; i + 1 < recipe.parts.size(); i += 2) {
        PyRef key = make(recipe.parts[i]);
        check(PyDict_SetItem(dict.get(), key.get(), make(recipe.parts[i + 1]).get()) == 0);
      }
      return dict;
    }
    case RecipeKind::Set:
      return new_set(&PySet_Type, parts(recipe));
    case RecipeKind::FrozenSet:
      return new_set(&PyFrozenSet_Type, parts(recipe));
    case RecipeKind::Slice: {
      std::vector<PyRef> made = parts(recipe);
      return checked(PySlice_New(made[0].get(), made[1].get(), made[2].get()));
    }
    case RecipeKind::Cell: {
      PyRef cell = made_[index] = checked(PyCell_New(nullptr));
      PyCell_SET(cell.get(), make(recipe.parts[0]).release());
      return cell;
    }
    case RecipeKind::Method: {
      std::vector<PyRef> made = parts(recipe);
      return checked(PyMethod_New(made[0].get(), made[1].get()));
    }
    case RecipeKind::Function: {
      PyRef globals = make(recipe.parts[0]);
      PyRef made = made_[index] = checked(PyFunction_New(recipe.held, globals.get()));
      auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
      set_field(function->func_closure, make(recipe.parts[1]));
      set_field(function->func_defaults, make(recipe.parts[2]));
      set_field(function->func_kwdefaults, make(recipe.parts[3]));
      set_field(function->func_annotations, make(recipe.parts[4]));
      set_field(function->func_dict, make(recipe.parts[5]));
      set_field(function->func_qualname, make(recipe.parts[6]));
      set_field(function->func_name, make(recipe.parts[7]));
      set_field(function->func_doc, make(recipe.parts[8]));
      set_field(function->func_module, make(recipe.parts[9]));
#if PY_VERSION_HEX >= 0x030C0000
      set_field(function->func_typeparams, make(recipe.parts[10]));
#endif
      return made;
    }
    case RecipeKind::Instance: {
      auto* type = reinterpret_cast<PyTypeObject*>(recipe.held);
      PyRef contents = make(recipe.parts[0]);
      PyRef none = checked(PyTuple_New(0));
      // A value type takes its contents when it is made; a container is filled afterwards.
      const bool filled_later =
          !contents || PyDict_Check(contents.get()) || PyList_Check(contents.get()) || PySet_Check(contents.get());
      PyTypeObject* base = type;
      while (!is_c_class(base)) base = base->tp_base;
      PyRef args = filled_later ? none : checked(PyTuple_Pack(1, contents.get()));
      PyRef object = made_[index] = checked(base->tp_new(type, args.get(), nullptr));
      if (contents && filled_later) {
        if (PyODict_Check(object.get())) check(base->tp_init(object.get(), none.get(), nullptr) == 0);
        refill(object.get(), contents.get());
      }
      if (PyRef state = make(recipe.parts[1])) update_dict(object.get(), state.get());
      for (size_t i = 2; i + 1 < recipe.parts.size(); i += 2) {
        const int64_t offset = book_.recipes[recipe.parts[i]].index;
        slot_at(object.get(), offset) = make(recipe.parts[i + 1]).release();
      }
      return object;
    }
    case RecipeKind::Exception: {
      auto* type = reinterpret_cast<PyTypeObject*>(recipe.held);
      PyTypeObject* base = type;
      while (!is_c_class(base)) base = base->tp_base;
      PyRef object = made_[index] = checked(base->tp_new(type, make(recipe.parts[0]).get(), nullptr));
      if (PyRef state = make(recipe.parts[1])) {
        PyRef own = checked(PyObject_GenericGetDict(object.get(), nullptr));
        check(PyDict_Update(own.get(), state.get()) == 0);
      }
      for (size_t i = 2; i + 1 < recipe.parts.size(); i += 2) {
        PyObject* field = book_.recipes[recipe.parts[i]].held;
        check(Py_TYPE(field)->tp_descr_set(field, object.get(), make(recipe.parts[i + 1]).get()) == 0);
      }
      return object;
    }
    case RecipeKind::Traceback:
      return new_traceback(make(recipe.parts[0]).get(), recipe.held, make(recipe.parts[1]).get(), recipe.index);
    case RecipeKind::Carrying: {
      PyRef object = made_[index] = make(recipe.parts[0]);
      update_dict(object.get(), make(recipe.parts[1]).get());
      return object;
    }
    case RecipeKind::Attribute:
      return checked(PyObject_GetAttr(make(recipe.parts[0]).get(), recipe.held));
    case RecipeKind::Call:
      return checked(PyObject_CallMethodNoArgs(make(recipe.parts[0]).get(), recipe.held));
    case RecipeKind::Stepped: {
      PyRef iterator = checked(PyObject_GetIter(make(recipe.parts[0]).get()));
      for (int64_t i = 0; i < recipe.index; ++i) {
        PyRef item = PyRef::steal(PyIter_Next(iterator.get()));
        check(item || !PyErr_Occurred());
      }
      return iterator;
    }
    case RecipeKind::Reduced: {
      PyRef callable = make(recipe.parts[0]), args = make(recipe.parts[1]);
      PyRef made = checked(PyObject_Call(callable.get(), args.get(), nullptr));
      if (recipe.parts.size() > 2) {
        PyRef state = make(recipe.parts[2]);
        if (state && state.get() != Py_None)
          checked(PyObject_CallMethod(made.get(), "__setstate__", "(O)", state.get()));
      }
      return made;
    }
    default:
      return {};
  }
}

void Cook::apply_writes() {
  std::vector<PyRef> targets, values;
  for (const Write& write : book_.writes) {
    targets.push_back(make(write.target));
    values.push_back(make(write.value));
  }
  for (size_t i = 0; i < book_.writes.size(); ++i) {
    const Write& write = book_.writes[i];
    PyObject *target = targets[i].get(), *value = values[i].get();
    switch (write.kind) {
      case WriteKind::SetKey:
        check((PyODict_Check(target) ? PyODict_SetItem(target, write.held, value)
                                     : PyDict_SetItem(target, write.held, value)) == 0);
        break;
      case WriteKind::DeleteKey:
        check((PyODict_Check(target) ? PyODict_DelItem(target, write.held) : PyDict_DelItem(target, write.held)) == 0);
        break;
      case WriteKind::Append:
        if (PyList_Check(target)) {
          check(PyList_Append(target, value) == 0);
        } else {
          checked(PyObject_CallMethod(target, "append", "(O)", value));
        }
        break;
      case WriteKind::Refill:
        refill(target, value);
        break;
      case WriteKind::SetCell: {
        PyRef old = PyRef::steal(PyCell_GET(target));
        PyCell_SET(target, Py_XNewRef(value));
        break;
      }
      case WriteKind::SetGrad:
        check(PyObject_SetAttrString(target, "grad", value) == 0);
        break;
      case WriteKind::LeaveHook:
        checked(PyObject_CallMethodOneArg(target, write.held, value));
        break;
      case WriteKind::Step:
        for (int64_t k = 0; k < write.offset; ++k) {
          const PyRef item = PyRef::steal(PyIter_Next(target));
          check(item || !PyErr_Occurred());
        }
        break;
      case WriteKind::SetSlot: {
        PyRef old = PyRef::steal(slot_at(target, write.offset));
        slot_at(target, write.offset) = Py_XNewRef(value);
        break;
      }
    }
  }
}

}  // namespace firesteel::capture
