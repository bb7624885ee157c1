// Which C++ types a compiled function may take and return, and how each is laid flat and rebuilt.
//
// Tensors; std::vector, std::array, std::tuple, std::pair, std::optional, std::map and std::unordered_map with text
// keys, nested at will; integers, floating-point numbers, bool, enumerations and std::string as constants, which are
// part of the signature; and structs of all these, announced by Fields.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "firesteel/flat.h"

namespace firesteel {

// Specialise this for a struct of your own; it must have a default constructor:
//
//   struct Batch { at::Tensor images; std::vector<at::Tensor> labels; };
//   template <> struct firesteel::Fields<Batch> {
//     static constexpr auto name = "Batch";
//     static auto of(auto& batch) { return std::tie(batch.images, batch.labels); }
//   };
template <class T>
struct Fields {};

namespace detail {

template <class T>
concept HasFields = requires(T& value) {
  Fields<T>::of(value);
  Fields<T>::name;
};

template <class T>
inline constexpr bool always_false = false;

// One specialisation a type: write() and read() in the same order.
template <class T, class = void>
struct Nested {
  static_assert(
      always_false<T>,
      "firesteel: a compiled function cannot take or return this type; use tensors, standard containers, numbers, "
      "strings, or specialise firesteel::Fields for your struct");
};

template <class T>
void write(FlatWriter& writer, const T& value) {
  Nested<T>::write(writer, value);
}
template <class T>
T read(FlatReader& reader) {
  return Nested<T>::read(reader);
}

template <>
struct Nested<at::Tensor> {
  static void write(FlatWriter& writer, const at::Tensor& tensor) { writer.tensor(tensor); }
  static at::Tensor read(FlatReader& reader) { return reader.tensor(); }
};

template <class T>
struct Nested<T, std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>> {
  static constexpr FlatTag kTag = std::is_same_v<T, bool> ? FlatTag::Bool : FlatTag::Int;
  static void write(FlatWriter& writer, T value) {
    writer.tag(kTag);
    writer.number(static_cast<int64_t>(value));
  }
  static T read(FlatReader& reader) {
    reader.expect(kTag);
    return static_cast<T>(reader.integer());
  }
};

template <class T>
struct Nested<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static void write(FlatWriter& writer, T value) {
    writer.tag(FlatTag::Double);
    writer.number(static_cast<double>(value));
  }
  static T read(FlatReader& reader) {
    reader.expect(FlatTag::Double);
    return static_cast<T>(reader.real());
  }
};

template <>
struct Nested<std::string> {
  static void write(FlatWriter& writer, const std::string& value) {
    writer.tag(FlatTag::Text);
    writer.text(value);
  }
  static std::string read(FlatReader& reader) {
    reader.expect(FlatTag::Text);
    return reader.text();
  }
};

template <class T>
struct Nested<std::optional<T>> {
  static void write(FlatWriter& writer, const std::optional<T>& value) {
    writer.tag(value ? FlatTag::Some : FlatTag::None);
    if (value) detail::write(writer, *value);
  }
  static std::optional<T> read(FlatReader& reader) {
    if (reader.peek() == FlatTag::None) {
      reader.expect(FlatTag::None);
      return std::nullopt;
    }
    reader.expect(FlatTag::Some);
    return detail::read<T>(reader);
  }
};

template <class T, class Allocator>
struct Nested<std::vector<T, Allocator>> {
  static void write(FlatWriter& writer, const std::vector<T, Allocator>& items) {
    writer.tag(FlatTag::List);
    writer.number(static_cast<int64_t>(items.size()));
    for (const T& item : items) detail::write<T>(writer, item);
  }
  static std::vector<T, Allocator> read(FlatReader& reader) {
    reader.expect(FlatTag::List);
    std::vector<T, Allocator> items;
    for (int64_t left = reader.integer(); left > 0; --left) items.push_back(detail::read<T>(reader));
    return items;
  }
};

template <class T, size_t N>
struct Nested<std::array<T, N>> {
  static void write(FlatWriter& writer, const std::array<T, N>& items) {
    writer.tag(FlatTag::List);
    writer.number(static_cast<int64_t>(N));
    for (const T& item : items) detail::write(writer, item);
  }
  static std::array<T, N> read(FlatReader& reader) {
    reader.expect(FlatTag::List);
    reader.integer();
    // A braced list is evaluated from left to right, so the items are read in order.
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::array<T, N>{((void)I, detail::read<T>(reader))...};
    }
    (std::make_index_sequence<N>());
  }
};

template <class... T>
struct Nested<std::tuple<T...>> {
  static void write(FlatWriter& writer, const std::tuple<T...>& items) {
    writer.tag(FlatTag::Tuple);
    writer.number(static_cast<int64_t>(sizeof...(T)));
    std::apply([&](const T&... item) { (detail::write(writer, item), ...); }, items);
  }
  static std::tuple<T...> read(FlatReader& reader) {
    reader.expect(FlatTag::Tuple);
    reader.integer();
    return std::tuple<T...>{detail::read<T>(reader)...};
  }
};

template <class A, class B>
struct Nested<std::pair<A, B>> {
  static void write(FlatWriter& writer, const std::pair<A, B>& items) {
    writer.tag(FlatTag::Tuple);
    writer.number(int64_t{2});
    detail::write(writer, items.first);
    detail::write(writer, items.second);
  }
  static std::pair<A, B> read(FlatReader& reader) {
    reader.expect(FlatTag::Tuple);
    reader.integer();
    return std::pair<A, B>{detail::read<A>(reader), detail::read<B>(reader)};
  }
};

// Written in the order of the keys, whatever order the map keeps.
template <class Map>
struct NestedMap {
  using Item = typename Map::mapped_type;
  static void write(FlatWriter& writer, const Map& map) {
    writer.tag(FlatTag::Dict);
    writer.number(static_cast<int64_t>(map.size()));
    std::vector<const typename Map::value_type*> items;
    items.reserve(map.size());
    for (const auto& item : map) items.push_back(&item);
    std::sort(items.begin(), items.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* item : items) {
      writer.text(item->first);
      detail::write(writer, item->second);
    }
  }
  static Map read(FlatReader& reader) {
    reader.expect(FlatTag::Dict);
    Map map;
    for (int64_t left = reader.integer(); left > 0; --left) {
      std::string key = reader.text();
      map.emplace(std::move(key), detail::read<Item>(reader));
    }
    return map;
  }
};

template <class T, class... Rest>
struct Nested<std::map<std::string, T, Rest...>> : NestedMap<std::map<std::string, T, Rest...>> {};
template <class T, class... Rest>
struct Nested<std::unordered_map<std::string, T, Rest...>> : NestedMap<std::unordered_map<std::string, T, Rest...>> {};

template <class T>
struct Nested<T, std::enable_if_t<HasFields<T>>> {
  static void write(FlatWriter& writer, const T& value) {
    writer.tag(FlatTag::Struct);
    writer.text(Fields<T>::name);
    std::apply(
        [&](const auto&... field) {
          writer.number(static_cast<int64_t>(sizeof...(field)));
          (detail::write(writer, field), ...);
        },
        Fields<T>::of(value));
  }
  static T read(FlatReader& reader) {
    reader.expect(FlatTag::Struct);
    reader.text();
    reader.integer();
    T value{};
    std::apply([&](auto&... field) { ((field = detail::read<std::remove_cvref_t<decltype(field)>>(reader)), ...); },
               Fields<T>::of(value));
    return value;
  }
};

}  // namespace detail
}  // namespace firesteel
