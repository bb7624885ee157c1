// firesteel::nonstrict(function) and firesteel::disable(function): how one call inside a compiled function is taken.
#pragma once

#include <memory>
#include <stdexcept>

#include "firesteel/callable.h"
#include "firesteel/graph_break.h"

namespace firesteel {
namespace detail {

// While it lives, operators recorded on this thread are said to come from that function.
class FIRESTEEL_API NamedPlace {
 public:
  NamedPlace(const std::string& name, const std::source_location& where);
  ~NamedPlace();
  NamedPlace(const NamedPlace&) = delete;
  NamedPlace& operator=(const NamedPlace&) = delete;

 private:
  struct Outer;
  std::unique_ptr<Outer> outer_;  // null where nothing is traced
};

FIRESTEEL_API void break_at_disabled(const std::string& name, const std::string& reason,
                                     const std::source_location& where);

// A function with a name and the place where it was marked. Called as the function is, and with its signature.
template <class F>
struct Marked {
  F function;
  std::string name;
  std::source_location where;

  Marked(F f, std::string n, const std::source_location& w) : function(std::move(f)), name(std::move(n)), where(w) {
    if constexpr (std::is_pointer_v<F> || std::is_member_pointer_v<F>) {
      if (function == nullptr) throw std::invalid_argument("firesteel: a null function cannot be marked");
    }
  }
};

}  // namespace detail

template <class F>
class Nonstrict {
 public:
  Nonstrict(F function, std::string name, const std::source_location& where)
      : marked_(std::move(function), std::move(name), where) {}

  template <class... Args>
  std::invoke_result_t<F&, Args...> operator()(Args&&... args) {
    detail::NamedPlace place(marked_.name, marked_.where);
    return std::invoke(marked_.function, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<const F&, Args...> operator()(Args&&... args) const {
    detail::NamedPlace place(marked_.name, marked_.where);
    return std::invoke(marked_.function, std::forward<Args>(args)...);
  }

 private:
  detail::Marked<F> marked_;
};

template <class F>
class Disabled {
 public:
  Disabled(F function, std::string name, std::string reason, const std::source_location& where)
      : marked_(std::move(function), std::move(name), where), reason_(std::move(reason)) {}

  template <class... Args>
  std::invoke_result_t<F&, Args...> operator()(Args&&... args) {
    detail::break_at_disabled(marked_.name, reason_, marked_.where);
    return std::invoke(marked_.function, std::forward<Args>(args)...);
  }
  template <class... Args>
  std::invoke_result_t<const F&, Args...> operator()(Args&&... args) const {
    detail::break_at_disabled(marked_.name, reason_, marked_.where);
    return std::invoke(marked_.function, std::forward<Args>(args)...);
  }

 private:
  detail::Marked<F> marked_;
  std::string reason_;
};

namespace detail {

template <class F>
struct SignatureOf<Nonstrict<F>, void> : SignatureOf<F> {};
template <class F>
struct SignatureOf<Disabled<F>, void> : SignatureOf<F> {};

}  // namespace detail

// One call, whatever is inside: in a graph its operators carry `name` and the place of this call, so the text of the
// graph shows which of them are its. Outside a trace it is called, no more.
template <class F>
auto nonstrict(F&& function, std::string name = "nonstrict",
               const std::source_location& where = std::source_location::current()) {
  return Nonstrict<std::decay_t<F>>(std::forward<F>(function), std::move(name), where);
}

// It runs on real tensors only, and every time. A compiled function that calls it is run as it is for such arguments,
// the compiled functions that it calls still compiled; see graph_break().
template <class F>
auto disable(F&& function, std::string name = "a function", std::string reason = {},
             const std::source_location& where = std::source_location::current()) {
  return Disabled<std::decay_t<F>>(std::forward<F>(function), std::move(name), std::move(reason), where);
}

}  // namespace firesteel
