// Recipes by type, and writes by comparing containers with what they held.
#include "capture/recipe_maker.h"

#include <Python.h>
#include <structmember.h>

#include "capture/arrays.h"
#include "capture/callable_objects.h"
#include "capture/callables.h"
#include "capture/cpython/frame_shim.h"
#include "capture/cpython/generator_shim.h"
#include "capture/exception_fields.h"
#include "capture/identities.h"
#include "capture/leaf_hooks.h"
#include "capture/mapping_proxies.h"
#include "capture/overridden_calls.h"
#include "capture/tensor_text.h"
#include "capture/transforms.h"
#include "capture/wrapper_tensors.h"
#include "python/constants.h"
#include "python/errors.h"
#include "python/tensor_objects.h"

namespace firesteel::capture {
namespace {

using python::checked;

// What torch tells of a type of numbers.
bool is_type_info(PyObject* object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return name == "torch.finfo" || name == "torch.iinfo";
}

bool is_fixed(PyObject* object) {
  return PyType_Check(object) || PyModule_Check(object) || Py_IS_TYPE(object, &PyMethodDescr_Type) ||
         Py_IS_TYPE(object, &PyWrapperDescr_Type) || Py_IS_TYPE(object, &PyMemberDescr_Type) ||
         Py_IS_TYPE(object, &PyGetSetDescr_Type) || is_own_callable(object) || is_torch_op(object) ||
         object == Py_Ellipsis || object == Py_NotImplemented || is_type_info(object);
}

PyTypeObject* c_base(PyTypeObject* type) {
  while (!is_c_class(type)) type = type->tp_base;
  return type;
}

}  // namespace

bool hashes_by_python(PyObject* key) {
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (hashes_by_python(PyTuple_GET_ITEM(key, i))) return true;
    }
  }
  PyTypeObject* type = Py_TYPE(key);
  return is_python_class(type) && !is_guardable_constant(key) &&
         (type->tp_hash != PyBaseObject_Type.tp_hash || type->tp_richcompare != PyBaseObject_Type.tp_richcompare) &&
         !PyTuple_Check(key);
}

int32_t RecipeMaker::add(RecipeKind kind, PyObject* object, std::vector<int32_t> parts, int64_t index) {
  book_.recipes.push_back({kind, PyRef::borrow(object), nullptr, index, std::move(parts)});
  return static_cast<int32_t>(book_.recipes.size()) - 1;
}

int32_t RecipeMaker::load(const Source* source) {
  auto [found, is_new] = loads_.try_emplace(source, 0);
  if (is_new) {
    found->second = add(RecipeKind::Load, nullptr, {}, static_cast<int64_t>(book_.loads.size()));
    book_.loads.push_back(source);
  }
  return found->second;
}

template <class F>
int32_t RecipeMaker::with_parts(PyObject* value, RecipeKind kind, PyObject* object, F&& fill) {
  const int32_t index = add(kind, object);
  known_[value] = index;
  held_.push_back(PyRef::borrow(value));
  std::vector<int32_t> parts = fill();
  book_.recipes[index].parts = std::move(parts);
  return index;
}

int32_t RecipeMaker::of(PyObject* value) {
  if (!value) return add(RecipeKind::Nothing);
  if (PyObject* callable = followed_callable(value)) return of(callable);
  if (const PyRef hook = LeafHooks::hook_of(value)) {
    const int32_t given = add(RecipeKind::Tuple, nullptr, {constant(hook.get())});
    return with_parts(value, RecipeKind::Reduced, nullptr, [&] {
      return std::vector<int32_t>{constant(LeafHooks::handle_function()), given};
    });
  }
  if (auto found = known_.find(value); found != known_.end()) return found->second;
  if (python::is_tensor(value)) return tensor(value);
  if (is_tensor_text(value)) throw NoRecipe{PyRef::borrow(value), "the text of a tensor"};
  if (is_made_address(value)) throw NoRecipe{PyRef::borrow(value), "the address of an object made here"};
  if (capture_.is_data_number(value)) return data_number(value, capture_.data_result(value));
  if (const Source* source = capture_.truth_source(value)) return load(source);
  if (const std::optional<Relation> truth = capture_.open_relation(value))
    return data_number(value, capture_.truth_result(*truth));
  if (const Source* source = capture_.number_source(value)) return load(source);
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return add(RecipeKind::Slice, nullptr, {of(slice->start), of(slice->stop), of(slice->step)});
  }
  // A torch.Size may hold numbers from outside.
  if (PyTuple_Check(value) && python::is_torch_constant(value) && capture_.is_made(value)) {
    return with_parts(value, RecipeKind::Tuple, reinterpret_cast<PyObject*>(Py_TYPE(value)), [&] {
      std::vector<int32_t> parts;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) parts.push_back(of(PyTuple_GET_ITEM(value, i)));
      return parts;
    });
  }
  if (is_array_stand_in(value)) return array(value);
  if (is_guardable_constant(value)) return constant(capture_.original(value).get());
  if (const Source* source = capture_.source_of(value)) return is_fixed(value) ? constant(value) : load(source);
  if (is_fixed(value)) return constant(value);
  // What is known by its parts alone must not hold itself.
  if (!open_.insert(value).second) throw NoRecipe{PyRef::borrow(value), "a container that holds itself"};
  const int32_t made = made_inside(value);
  open_.erase(value);
  if (known_.try_emplace(value, made).second) held_.push_back(PyRef::borrow(value));
  return made;
}

int32_t RecipeMaker::tensor(PyObject* value) {
  if (const Source* source = capture_.tensor_source(value)) return load(source);
  if (!capture_.is_stand_in(value)) throw NoRecipe{PyRef::borrow(value), "a tensor"};
  if (const at::Tensor& given = python::unpack(value); !without_transforms(given).is_same(given))
    throw NoRecipe{PyRef::borrow(value), "a tensor from inside a transform of torch.func"};
  if (auto found = outputs_.find(value); found != outputs_.end()) return found->second;
  int32_t output = add(RecipeKind::Output, nullptr, {}, static_cast<int64_t>(tensors_.size()));
  tensors_.push_back(PyRef::borrow(value));
  if (is_wrapper(value)) {
    outputs_.emplace(value, output);
    return output;
  }
  if (!python::is_exact_tensor(value)) {  // the graph gives a plain tensor
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
    const int32_t given = add(RecipeKind::Tuple, nullptr, {output, constant(type)});
    output = add(RecipeKind::Reduced, nullptr, {constant(subclassing_method()), given});
  }
  outputs_.emplace(value, output);
  // What the program keeps on it.
  PyObject* dict = fs_instance_dict(value);
  if (!dict || PyDict_GET_SIZE(dict) == 0) return output;
  const int32_t carrying = outputs_[value] = add(RecipeKind::Carrying, nullptr, {output});
  const int32_t carried = add(RecipeKind::Dict, nullptr, dict_parts(dict));
  book_.recipes[carrying].parts.push_back(carried);
  return carrying;
}

int32_t RecipeMaker::data_number(PyObject* value, PyRef held) {
  const int32_t made = add(RecipeKind::Number, nullptr, {}, static_cast<int64_t>(tensors_.size()));
  tensors_.push_back(std::move(held));
  known_[value] = made;
  held_.push_back(PyRef::borrow(value));
  return made;
}

// The array from outside itself, or a new one over the memory of the graph's tensor.
int32_t RecipeMaker::array(PyObject* value) {
  if (const Source* source = array_source(capture_, value)) return load(source);
  PyRef held = checked(PyObject_GetAttrString(value, "tensor"));
  PyRef finish = checked(PyObject_GetAttrString(value, "finish"));
  const int32_t given = add(RecipeKind::Tuple, nullptr, {tensor(held.get())});
  const int32_t made = add(RecipeKind::Reduced, nullptr, {constant(finish.get()), given});
  known_[value] = made;
  held_.push_back(PyRef::borrow(value));
  return made;
}

// One that has not begun is made again by the call that made it.
int32_t RecipeMaker::new_generator(PyObject* value) {
  FsFrame* frame = fs_new_generator_frame(value);
  PyCodeObject* code = frame ? fs_frame_code(frame) : nullptr;
  if (!code || code->co_kwonlyargcount || (code->co_flags & CO_VARKEYWORDS))
    throw NoRecipe{PyRef::borrow(value), "a generator"};
  PyObject** locals = fs_frame_locals(frame);
  return with_parts(value, RecipeKind::Reduced, nullptr, [&] {
    std::vector<int32_t> given;
    for (int i = 0; i < code->co_argcount; ++i)
      given.push_back(of(PyCell_Check(locals[i]) && code->co_ncellvars ? PyCell_GET(locals[i]) : locals[i]));
    PyObject* rest = code->co_flags & CO_VARARGS ? locals[code->co_argcount] : nullptr;
    if (rest && PyCell_Check(rest)) rest = PyCell_GET(rest);
    for (Py_ssize_t i = 0; rest && i < PyTuple_GET_SIZE(rest); ++i) given.push_back(of(PyTuple_GET_ITEM(rest, i)));
    const int32_t tuple = add(RecipeKind::Tuple, nullptr, std::move(given));
    return std::vector<int32_t>{of(fs_frame_function(frame)), tuple};
  });
}

std::vector<int32_t> RecipeMaker::dict_parts(PyObject* dict) {
  std::vector<int32_t> parts;
  PyRef ordered = PyODict_Check(dict) ? plain_copy(dict) : PyRef::borrow(dict);
  dict = ordered.get();
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *item = nullptr;
  while (PyDict_Next(dict, &position, &key, &item)) {
    if (hashes_by_python(key)) throw NoRecipe{PyRef::borrow(dict), "a dict with keys of a class that hashes itself"};
    parts.push_back(of(key));
    parts.push_back(of(item));
  }
  return parts;
}

int32_t RecipeMaker::call(PyObject* callable, std::initializer_list<PyObject*> args) {
  std::vector<int32_t> parts;
  for (PyObject* arg : args) parts.push_back(of(arg));
  const int32_t tuple = add(RecipeKind::Tuple, nullptr, std::move(parts));
  return add(RecipeKind::Reduced, nullptr, {of(callable), tuple});
}

int32_t RecipeMaker::reduced(PyObject* value) {
  PyRef parts;
  {
    Suspended suspended(capture_);
    parts = PyRef::steal(PyObject_CallMethod(value, "__reduce__", nullptr));
  }
  if (!parts || !PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) < 2) {
    PyErr_Clear();
    throw NoRecipe{PyRef::borrow(value), Py_TYPE(value)->tp_name};
  }
  held_.push_back(parts);
  return with_parts(value, RecipeKind::Reduced, nullptr, [&] {
    std::vector<int32_t> made;
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(3, PyTuple_GET_SIZE(parts.get())); ++i)
      made.push_back(of(PyTuple_GET_ITEM(parts.get(), i)));
    return made;
  });
}

int32_t RecipeMaker::instance(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return with_parts(value, RecipeKind::Instance, reinterpret_cast<PyObject*>(type), [&] {
    std::vector<int32_t> parts;
    PyTypeObject* base = c_base(type);
    if (PyDict_Check(value)) {
      parts.push_back(add(RecipeKind::Dict, nullptr, dict_parts(value)));
    } else if (PyList_Check(value)) {
      std::vector<int32_t> items;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) items.push_back(of(PyList_GET_ITEM(value, i)));
      parts.push_back(add(RecipeKind::List, nullptr, std::move(items)));
    } else if (PyTuple_Check(value)) {
      std::vector<int32_t> items;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) items.push_back(of(PyTuple_GET_ITEM(value, i)));
      parts.push_back(add(RecipeKind::Tuple, nullptr, std::move(items)));
    } else if (PyAnySet_Check(value)) {
      PyRef plain = checked(PyFrozenSet_Check(value) ? PyFrozenSet_New(value) : PySet_New(value));
      held_.push_back(plain);
      parts.push_back(of(plain.get()));
    } else if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type) {
      PyRef args = checked(PyTuple_Pack(1, value));
      PyRef plain = base == &PyLong_Type    ? checked(PyNumber_Long(value))
                    : base == &PyFloat_Type ? checked(PyFloat_FromDouble(PyFloat_AsDouble(value)))
                                            : checked(PyUnicode_FromObject(value));
      held_.push_back(plain);
      parts.push_back(constant(plain.get()));
    } else {
      parts.push_back(add(RecipeKind::Nothing));
    }
    PyObject* dict = fs_instance_dict(value);
    parts.push_back(dict ? add(RecipeKind::Dict, nullptr, dict_parts(dict)) : add(RecipeKind::Nothing));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      auto* owner = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
      Py_ssize_t position = 0;
      PyObject *key = nullptr, *member = nullptr;
      while (PyDict_Next(fs_type_dict(owner), &position, &key, &member)) {
        if (!Py_IS_TYPE(member, &PyMemberDescr_Type)) continue;
        // __slots__, and what a C class keeps: a defaultdict's factory.
        const PyMemberDef& field = *reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
        if (field.type != T_OBJECT_EX && (field.type != T_OBJECT || field.flags & READONLY)) continue;
        PyObject* held = slot_value(value, member);
        if (!held) continue;
        parts.push_back(add(RecipeKind::Slot, nullptr, {}, slot_offset(member)));
        parts.push_back(of(held));
      }
    }
    return parts;
  });
}

// Made without the code of its class, which has run already; then all its fields are set, whoever has set them.
int32_t RecipeMaker::exception(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return with_parts(value, RecipeKind::Exception, reinterpret_cast<PyObject*>(type), [&] {
    PyRef args = checked(PyObject_GetAttrString(value, "args"));
    // The exceptions of a group are set for good when it is made.
    if (PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup))) {
      PyRef message = checked(PyObject_GetAttrString(value, "message"));
      PyRef exceptions = checked(PyObject_GetAttrString(value, "exceptions"));
      args = checked(PyTuple_Pack(2, message.get(), exceptions.get()));
    }
    held_.push_back(args);
    PyObject* dict = fs_instance_dict(value);
    std::vector<int32_t> parts = {of(args.get()),
                                  dict ? add(RecipeKind::Dict, nullptr, dict_parts(dict)) : add(RecipeKind::Nothing)};
    for (const auto& [field, held] : fields_of_exception(value)) {
      held_.push_back(held);
      parts.push_back(constant(field.get()));
      parts.push_back(of(held.get()));
    }
    if (PyRef traceback = PyRef::steal(PyException_GetTraceback(value))) {
      static PyObject* field =
          PyDict_GetItemString(fs_type_dict(reinterpret_cast<PyTypeObject*>(PyExc_BaseException)), "__traceback__");
      parts.push_back(constant(field));
      parts.push_back(of(traceback.get()));
    }
    return parts;
  });
}

// The frames of a capture hold stand-ins: others of the same code at the same lines take their places.
int32_t RecipeMaker::traceback(PyObject* value) {
  if (!capture_.whole_stretches) throw NoRecipe{PyRef::borrow(value), "a traceback"};
  auto* entry = reinterpret_cast<PyTracebackObject*>(value);
  const PyRef code = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(entry->tb_frame)));
  const PyRef globals = PyRef::steal(PyFrame_GetGlobals(entry->tb_frame));
  const int32_t made = with_parts(value, RecipeKind::Traceback, code.get(), [&] {
    return std::vector<int32_t>{of(reinterpret_cast<PyObject*>(entry->tb_next)), globals_of(globals.get())};
  });
  book_.recipes[made].index = place_in_traceback(entry);
  return made;
}

int32_t RecipeMaker::globals_of(PyObject* globals) {
  const Source* source = capture_.source_of(globals);
  return source && !source->is_object() ? load(source) : constant(globals);
}

int32_t RecipeMaker::made_inside(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  auto sequence = [&](RecipeKind kind) {
    return with_parts(value, kind, nullptr, [&] {
      std::vector<int32_t> parts;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
        parts.push_back(of(PySequence_Fast_GET_ITEM(value, i)));
      return parts;
    });
  };
  if (type == &PyTuple_Type) return sequence(RecipeKind::Tuple);
  if (type == &PyList_Type) return sequence(RecipeKind::List);
  if (type == &PyDict_Type) return with_parts(value, RecipeKind::Dict, nullptr, [&] { return dict_parts(value); });
  if (PyAnySet_CheckExact(value)) {
    const RecipeKind kind = type == &PySet_Type ? RecipeKind::Set : RecipeKind::FrozenSet;
    return with_parts(value, kind, nullptr, [&] {
      std::vector<int32_t> parts;
      PyRef iterator = checked(PyObject_GetIter(value));
      while (PyRef item = PyRef::steal(PyIter_Next(iterator.get()))) {
        if (hashes_by_python(item.get()))
          throw NoRecipe{PyRef::borrow(value), "a set with items of a class that hashes itself"};
        parts.push_back(of(item.get()));
      }
      return parts;
    });
  }
  if (PyCell_Check(value)) {
    return with_parts(value, RecipeKind::Cell, nullptr, [&] { return std::vector<int32_t>{of(PyCell_GET(value))}; });
  }
  if (PyMethod_Check(value)) {
    const int32_t function = of(PyMethod_GET_FUNCTION(value));
    return add(RecipeKind::Method, nullptr, {function, of(PyMethod_GET_SELF(value))});
  }
  if (PyFunction_Check(value)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(value);
    return with_parts(value, RecipeKind::Function, function->func_code, [&] {
      PyObject* annotations = function->func_annotations;
      return std::vector<int32_t> {
        globals_of(function->func_globals), of(function->func_closure), of(function->func_defaults),
            of(function->func_kwdefaults), of(annotations), of(function->func_dict), of(function->func_qualname),
            of(function->func_name), of(function->func_doc), of(function->func_module),
#if PY_VERSION_HEX >= 0x030C0000
            of(function->func_typeparams),
#endif
      };
    });
  }
  if (PyCFunction_Check(value)) {
    PyObject* self = PyCFunction_GET_SELF(value);
    if (!self || PyModule_Check(self) || PyType_Check(self)) return constant(value);
    PyRef name = interned(reinterpret_cast<PyCFunctionObject*>(value)->m_ml->ml_name);
    return add(RecipeKind::Attribute, name.get(), {of(self)});
  }
  if (Py_IS_TYPE(value, &_PyMethodWrapper_Type)) {
    PyRef self = checked(PyObject_GetAttrString(value, "__self__"));
    PyRef name = checked(PyObject_GetAttrString(value, "__name__"));
    held_.push_back(self);
    return add(RecipeKind::Attribute, name.get(), {of(self.get())});
  }
  if (Py_IS_TYPE(value, &PySuper_Type)) {
    const SuperParts parts = parts_of_super(value);
    held_.push_back(parts.self);
    return call(reinterpret_cast<PyObject*>(&PySuper_Type), {parts.after.get(), parts.self.get()});
  }
  if (PyObject* dict = fs_view_dict(value)) {
    const char* name = PyDictKeys_Check(value) ? "keys" : PyDictValues_Check(value) ? "values" : "items";
    return add(RecipeKind::Call, interned(name).get(), {of(dict)});
  }
  if (PyExceptionInstance_Check(value)) {
    // Where pieces may be eager, the frames of the call itself stand in a traceback, and so they should.
    const PyRef raised = PyRef::steal(PyException_GetTraceback(value));
    if (raised && !capture_.whole_stretches) throw NoRecipe{PyRef::borrow(value), "an exception that was raised"};
    return exception(value);
  }
  if (PyTraceBack_Check(value)) return traceback(value);
  if (is_deque(value) && is_c_class(type)) {
    PyRef items = checked(PySequence_List(value));
    PyRef limit = checked(PyObject_GetAttrString(value, "maxlen"));
    held_.push_back(items);
    const int32_t made = call(reinterpret_cast<PyObject*>(type), {items.get(), limit.get()});
    known_[value] = made;
    return made;
  }
  if (std::string_view(type->tp_name) == "collections.defaultdict") {
    PyRef factory = checked(PyObject_GetAttrString(value, "default_factory"));
    PyRef items = checked(PyDict_Copy(value));
    held_.push_back(factory);
    held_.push_back(items);
    const int32_t made = call(reinterpret_cast<PyObject*>(type), {factory.get(), items.get()});
    known_[value] = made;
    return made;
  }
  if (type == &PyODict_Type) return instance(value);
  if (PyTuple_Check(value) && python::attribute(reinterpret_cast<PyObject*>(type), "n_sequence_fields")) {
    PyRef items = checked(PySequence_Tuple(value));
    held_.push_back(items);
    const int32_t made = call(reinterpret_cast<PyObject*>(type), {items.get()});
    known_[value] = made;
    return made;
  }
  const bool steps_a_dict = std::string_view(type->tp_name).find("dict_") != std::string_view::npos ||
                            std::string_view(type->tp_name).find("odict_") != std::string_view::npos ||
                            std::string_view(type->tp_name).find("set_iterator") != std::string_view::npos;
  if (PyGen_CheckExact(value)) return new_generator(value);
  if (PyGen_Check(value) || steps_a_dict) throw NoRecipe{PyRef::borrow(value), type->tp_name};
  if (PyIter_Check(value) && is_c_class(type)) return reduced(value);
  if (is_partial(value) || is_getter_class(type) || type == &Py_GenericAliasType) return reduced(value);
  if (const PyRef shown = dict_behind(capture_, value)) return call(reinterpret_cast<PyObject*>(type), {shown.get()});
  if (PyWeakref_CheckRefExact(value) && PyWeakref_GET_OBJECT(value) != Py_None)
    return call(reinterpret_cast<PyObject*>(type), {PyWeakref_GET_OBJECT(value)});
  if (is_random_generator(type)) {
    // Its state lies in the C object; a subclass may keep more.
    if (type->tp_base && std::string_view(type->tp_base->tp_name) == "_random.Random") return reduced(value);
    throw NoRecipe{PyRef::borrow(value), type->tp_name};
  }
  if (is_python_class(type)) return instance(value);
  throw NoRecipe{PyRef::borrow(value), type->tp_name};
}

}  // namespace firesteel::capture
