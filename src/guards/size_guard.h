// What compiled code takes for granted about the sizes that it leaves open.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "aot/symbols.h"
#include "graph/type.h"
#include "guards/source.h"
#include "shapes/open_sizes.h"

namespace firesteel::guards {

// As a capture collects it: where each symbol is found, the arguments whose sizes follow from them, and the conditions.
struct SizeGuard {
  std::vector<SymbolOrigin> symbols;
  std::vector<const Source*> symbol_sources;  // a tensor, or a number where the symbol's `dim` is -1
  std::vector<std::pair<const Source*, Type>> tensors;
  std::vector<ShapeGuard> conditions;
};

// The same as a program runs it.
class SizeCheck {
 public:
  // `slots`: of a source.
  template <class SlotOf>
  SizeCheck(const SizeGuard& guard, const SlotOf& slot_of) : symbols_(guard.symbols) {
    for (const Source* source : guard.symbol_sources) {
      symbol_slots_.push_back(slot_of(source));
      symbol_names_.push_back(source->str());
    }
    for (const auto& [source, type] : guard.tensors) add_tensor(slot_of(source), source->str(), type);
    if (!parts_.empty()) sizes_.emplace(parts_);
    add_conditions(guard.conditions);
  }

  bool holds(PyObject* const* slots) const { return failed(slots).holds; }
  // In words what does not hold; empty where all does.
  std::string explain(PyObject* const* slots) const;
  // One line a condition.
  std::vector<std::string> describe() const;

 private:
  struct Answer {
    bool holds = true;
    int symbol = -1, tensor = -1, condition = -1;
    SymbolValues values;
  };
  struct SizedTensor {
    uint32_t slot;
    std::string name;
    struct Part {
      bool is_size;
      size_t dim;
    };
    std::vector<Part> parts;  // sizes and strides that are expressions
  };
  void add_tensor(uint32_t slot, std::string name, const Type& type);
  bool is_origin(uint32_t slot, size_t dim) const;
  void add_conditions(const std::vector<ShapeGuard>& guards);
  Answer failed(PyObject* const* slots) const;

  std::vector<SymbolOrigin> symbols_;
  std::vector<uint32_t> symbol_slots_;
  std::vector<std::string> symbol_names_;
  std::vector<SizedTensor> tensors_;
  std::vector<Dim> parts_;  // of all tensors, one after the other
  std::optional<OpenSizes> sizes_;
  std::vector<std::string> conditions_;
  std::optional<RelationProgram> program_;
};

}  // namespace firesteel::guards
