// Calls a C++ function on flat values: its arguments are rebuilt from them, its result is laid flat.
#pragma once

#include <functional>
#include <typeinfo>

#include "firesteel/nested.h"

namespace firesteel {

// A function on flat values, its C++ types forgotten.
using FlatCallable = std::function<FlatValues(const FlatValues& arguments)>;

namespace detail {

// The one signature of a function, a function object or a lambda; void where it has several (`auto` parameters).
template <class F, class = void>
struct SignatureOf {
  using type = void;
};
template <class R, class... Args>
struct SignatureOf<R (*)(Args...), void> {
  using type = R(Args...);
};
template <class R, class... Args>
struct SignatureOf<R (*)(Args...) noexcept, void> {
  using type = R(Args...);
};
template <class Member>
struct SignatureOfMember;
#define FIRESTEEL_MEMBER_SIGNATURE(qualifiers)             \
  template <class C, class R, class... Args>               \
  struct SignatureOfMember<R (C::*)(Args...) qualifiers> { \
    using type = R(Args...);                               \
  };
FIRESTEEL_MEMBER_SIGNATURE()
FIRESTEEL_MEMBER_SIGNATURE(const)
FIRESTEEL_MEMBER_SIGNATURE(noexcept)
FIRESTEEL_MEMBER_SIGNATURE(const noexcept)
#undef FIRESTEEL_MEMBER_SIGNATURE
template <class F>
struct SignatureOf<F, std::void_t<decltype(&F::operator())>> : SignatureOfMember<decltype(&F::operator())> {};

template <class F>
using signature_of = typename SignatureOf<std::decay_t<F>>::type;

template <class T>
inline constexpr bool is_changeable_reference =
    std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;

template <class... Args>
FlatValues lay_flat(const Args&... args) {
  FlatWriter writer;
  (write<std::decay_t<Args>>(writer, args), ...);
  return writer.take();
}

// Throws MutationError where the two differ in structure or in any tensor.
FIRESTEEL_API void refuse_changed_arguments(const FlatValues& before, const FlatValues& after);

// Args: the types the function is called with, references included.
template <class... Args, class F>
FlatValues call_flat(F& function, const FlatValues& given) {
  constexpr auto indices = std::index_sequence_for<Args...>();
  FlatReader reader(given.tensors, given.structure);
  std::tuple<std::decay_t<Args>...> arguments{read<std::decay_t<Args>>(reader)...};
  // Containers and handles that a function takes by reference are its caller's: a graph could not repeat a change to
  // them.
  auto changeable = [&]<size_t... I>(std::index_sequence<I...>) {
    FlatWriter writer;
    auto add = [&]<class Arg>(std::type_identity<Arg>, const auto& argument) {
      if constexpr (is_changeable_reference<Arg>) write(writer, argument);
    };
    (add(std::type_identity<Args>(), std::get<I>(arguments)), ...);
    return writer.take();
  };
  auto call = [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return std::invoke(function, static_cast<Args&&>(std::get<I>(arguments))...);
  };
  const FlatValues before = changeable(indices);
  using Result = std::invoke_result_t<F&, Args...>;
  FlatWriter result;
  if constexpr (std::is_void_v<Result>) {
    call(indices);
  } else {
    write<std::decay_t<Result>>(result, call(indices));
  }
  refuse_changed_arguments(before, changeable(indices));
  return result.take();
}

template <class Result>
Result rebuild(const std::vector<at::Tensor>& tensors, const std::string& structure) {
  if constexpr (!std::is_void_v<Result>) {
    FlatReader reader(tensors, structure);
    return read<Result>(reader);
  }
}

template <class T>
using result_t = std::conditional_t<std::is_void_v<T>, void, std::decay_t<T>>;

}  // namespace detail
}  // namespace firesteel
