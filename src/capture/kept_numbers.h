// Floats that change from call to call inside functions that are not looked into: `torch.SymFloat` there, and what is
// asked of them `torch.SymBool`. What they compute, the guards' program computes again at each call.
#pragma once

#include "aot/open_numbers.h"
#include "aot/symbols.h"
#include "capture/capture.h"

namespace firesteel::capture {

class KeptNumbers final : public OpenNumbers {
 public:
  // From now on the trace asks here.
  KeptNumbers(Capture& capture, std::shared_ptr<Symbols> symbols);
  ~KeptNumbers() override;
  KeptNumbers(const KeptNumbers&) = delete;
  KeptNumbers& operator=(const KeptNumbers&) = delete;

  OpenNumber compute(const char* function, const Operand& first, const Operand* second) override;
  OpenNumber compare(const char* function, const Operand& first, const Operand& second) override;
  OpenNumber negate(const OpenNumber& truth) override;
  OpenNumber choose(const Operand& truth, const Operand& then_value, const Operand& else_value) override;
  double settle(const OpenNumber& number) override;
  bool decide(const OpenNumber& truth) override;
  at::Tensor operand(const Operand& number) override;

  OpenNumber number_of(PyObject* number) const;
  PyRef object_of(const Operand& number) const;

 private:
  template <class F>
  auto kept(F&& run);

  Capture& capture_;
  std::shared_ptr<Symbols> symbols_;
};

// The object of torch's class of that name (`SymFloat`) for a node of a trace.
PyRef torch_symbol(Capture& capture, const char* class_name, const c10::SymNode& node);

// The node of such an object; null where it is none of C++ code.
c10::SymNode node_behind(PyObject* symbol);
// Python's `(node, then_node, else_node) -> node`, which torch does not bind for nodes of C++ code.
PyRef choose_function();
// The node that one of torch's own stands around, as set_inner_node() wants it.
c10::SymNode inner_node(const c10::SymNode& node);

}  // namespace firesteel::capture
