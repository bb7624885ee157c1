// Checks sizes that are left open: values of the symbols first, then what follows from them.
#include "guards/size_guard.h"

#include <fmt/format.h>

#include "base/error.h"
#include "python/tensor_objects.h"
#include "shapes/redundant.h"

namespace firesteel::guards {

void SizeCheck::add_tensor(uint32_t slot, std::string name, const Type& type) {
  SizedTensor tensor{slot, std::move(name), {}};
  auto add = [&](const Dim& dim, bool is_size, size_t at) {
    // A symbol's own value is read there.
    if (dim.is_number() || (is_size && is_origin(slot, at))) return;
    tensor.parts.push_back({is_size, at});
    parts_.push_back(dim);
  };
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    add(type.sizes[d], true, d);
    add(type.strides[d], false, d);
  }
  if (!tensor.parts.empty()) tensors_.push_back(std::move(tensor));
}

bool SizeCheck::is_origin(uint32_t slot, size_t dim) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbol_slots_[i] == slot && symbols_[i].dim == static_cast<int32_t>(dim)) return true;
  }
  return false;
}

// What the bounds and the other conditions say already is not checked.
void SizeCheck::add_conditions(const std::vector<ShapeGuard>& guards) {
  Facts bounds;
  std::vector<std::string> names;
  std::vector<Relation> relations;
  for (const SymbolOrigin& symbol : symbols_) {
    bounds.add_symbol(symbol.name, symbol.least, symbol.most);
    names.push_back(symbol.name);
  }
  for (const ShapeGuard& guard : guards) relations.push_back(guard.relation);
  relations = without_redundant(relations, bounds);
  for (const Relation& relation : relations) {
    std::string text = relation.str();
    for (const ShapeGuard& guard : guards) {
      if (guard.relation != relation || !guard.source) continue;
      text += fmt::format(" (asked for at {})", guard.source->str());
      break;
    }
    conditions_.push_back(std::move(text));
  }
  if (!relations.empty()) program_.emplace(relations, names);
}

// Every slot is known to hold a tensor of that many dimensions, or an int.
SizeCheck::Answer SizeCheck::failed(PyObject* const* slots) const {
  Answer answer;
  answer.values.reserve(symbols_.size());
  for (size_t i = 0; i < symbols_.size(); ++i) {
    PyObject* from = slots[symbol_slots_[i]];
    int64_t value = 0;
    if (symbols_[i].dim >= 0) {
      value = python::unpack(from).sizes()[symbols_[i].dim];
    } else {
      int overflow = 0;
      value = PyLong_AsLongLongAndOverflow(from, &overflow);
      if (overflow) value = -1;
    }
    answer.values.push_back(value);
    if (value < symbols_[i].least || value > symbols_[i].most) {
      answer.holds = false;
      answer.symbol = static_cast<int>(i);
      return answer;
    }
  }
  std::vector<int64_t> sizes;
  try {
    if (sizes_) sizes = sizes_->run(answer.values);
  } catch (const Error&) {  // one of them has no value
    answer.holds = false;
    answer.tensor = 0;
    return answer;
  }
  size_t next = 0;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const at::Tensor& tensor = python::unpack(slots[tensors_[t].slot]);
    for (const SizedTensor::Part& part : tensors_[t].parts) {
      const int64_t now = part.is_size ? tensor.sizes()[part.dim] : tensor.strides()[part.dim];
      if (now == sizes[next++]) continue;
      answer.holds = false;
      answer.tensor = static_cast<int>(t);
      return answer;
    }
  }
  answer.condition = program_ ? program_->run(answer.values.data()) : -1;
  answer.holds = answer.condition < 0;
  return answer;
}

std::string SizeCheck::explain(PyObject* const* slots) const {
  const Answer answer = failed(slots);
  if (answer.holds) return {};
  std::string values;
  for (size_t i = 0; i < answer.values.size(); ++i) {
    const std::string from =
        symbols_[i].dim < 0 ? symbol_names_[i] : fmt::format("{}.shape[{}]", symbol_names_[i], symbols_[i].dim);
    values += fmt::format("{}`{}` ({}) is {}", i ? ", " : "", from, symbols_[i].name, answer.values[i]);
  }
  if (answer.symbol >= 0) {
    const SymbolOrigin& symbol = symbols_[answer.symbol];
    const std::string upto = symbol.most == INT64_MAX ? " on" : fmt::format(" to {}", symbol.most);
    return fmt::format("{}, and the compiled code serves sizes from {}{}", values, symbol.least, upto);
  }
  if (answer.tensor >= 0) {
    return fmt::format("`{}` has sizes or strides that no longer follow from the others: {}",
                       tensors_[answer.tensor].name, values);
  }
  return fmt::format("{}, and the compiled code needs {}", values, conditions_[answer.condition]);
}

std::vector<std::string> SizeCheck::describe() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const SymbolOrigin& symbol = symbols_[i];
    const std::string from =
        symbol.dim < 0 ? symbol_names_[i] : fmt::format("{}.shape[{}]", symbol_names_[i], symbol.dim);
    const std::string most = symbol.most == INT64_MAX ? "" : fmt::format(" <= {}", symbol.most);
    lines.push_back(fmt::format("Size {} is {}, {} <= {}{}", symbol.name, from, symbol.least, symbol.name, most));
  }
  for (const std::string& condition : conditions_) lines.push_back("Size " + condition);
  return lines;
}

}  // namespace firesteel::guards
