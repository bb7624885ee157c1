// Sizes of elementwise operators: all tensors among the arguments, broadcast together.
#include "aot/ivalue_tensors.h"
#include "aot/sizes/sizes.h"
#include "graph/data_symbols.h"

namespace firesteel {

std::optional<std::vector<Dim>> broadcast(SizeCall& call, std::vector<Dim> a, const std::vector<Dim>& b) {
  if (a.size() < b.size()) a.insert(a.begin(), b.size() - a.size(), Dim(1));
  for (size_t i = 0; i < b.size(); ++i) {
    Dim& size = a[a.size() - b.size() + i];
    // A one goes along with all, be that one too or not.
    if (size == Dim(1)) size = b[i];
    // Where data gives one of them they are equal in all calls that go well, or one: those are run as they are.
    const Relation same = Relation::eq(size, b[i]);
    const bool from_data = (mentions_data(size) || mentions_data(b[i])) && b[i] != Dim(1);
    if (from_data && !call.symbols.known(same) && call.symbols.hint(size) == call.symbols.hint(b[i]))
      call.symbols.require(same);
    if (size == b[i] || call.symbols.proves(same) || call.decide(Relation::eq(b[i], 1))) continue;
    const bool is_one = call.decide(Relation::eq(size, 1));
    if (!is_one && !call.decide(Relation::eq(size, b[i]))) return std::nullopt;
    if (is_one || b[i].is_number()) size = b[i];
  }
  return a;
}

bool broadcast_sizes(SizeCall& call) {
  std::optional<std::vector<Dim>> sizes = std::vector<Dim>();
  for (const c10::IValue& arg : call.args) {
    each_tensor(arg, [&](const at::Tensor& tensor) {
      if (sizes) sizes = broadcast(call, std::move(*sizes), layout_of(tensor).sizes);
    });
  }
  if (!sizes) return false;
  for (size_t i = 0; i < call.results.size(); ++i) call.give(*sizes);
  return true;
}

}  // namespace firesteel
