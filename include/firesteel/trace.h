// firesteel::trace(function, inputs...): one graph of a C++ function, to read and to call.
#pragma once

#include "firesteel/traced_graph.h"

namespace firesteel {

template <class Signature>
class Traced;

// Called with values that nest as the traced ones did; everything else raises InputMismatchError.
template <class Result, class... Args>
class Traced<Result(Args...)> : public TracedGraph {
 public:
  explicit Traced(TracedGraph graph) : TracedGraph(std::move(graph)) {}

  detail::result_t<Result> operator()(Args... args) const {
    return detail::rebuild<detail::result_t<Result>>(run(detail::lay_flat(args...)), result_structure());
  }
};

namespace detail {

template <class F, class Signature>
struct Tracer;

template <class F, class Result, class... Args>
struct Tracer<F, Result(Args...)> {
  static Traced<Result(Args...)> trace(F& function, const std::decay_t<Args>&... inputs) {
    auto flat = [&function](const FlatValues& given) { return call_flat<Args...>(function, given); };
    return Traced<Result(Args...)>(TracedGraph::record(flat, detail::lay_flat(inputs...), "graph"));
  }
};

// `auto` parameters: the types are those of the inputs.
template <class F, class... Inputs>
struct SignatureFor {
  using declared = signature_of<F>;
  template <class Declared, class = void>
  struct Pick {
    using type = Declared;
  };
  template <class Declared>
  struct Pick<Declared, std::enable_if_t<std::is_void_v<Declared>>> {
    using type = std::invoke_result_t<F&, Inputs&...>(Inputs&...);
  };
  using type = typename Pick<declared>::type;
};

}  // namespace detail

template <class F, class... Inputs>
auto trace(F&& function, const Inputs&... inputs) {
  using Function = std::remove_reference_t<F>;
  using Signature = typename detail::SignatureFor<Function, const Inputs...>::type;
  return detail::Tracer<Function, Signature>::trace(function, inputs...);
}

}  // namespace firesteel
