// Pieces of graph text that the printer and the parser share: names, quoting, constants, trees.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "graph/tree.h"

namespace firesteel {

// Stands for a constant that text cannot hold (a stream, a Python object); the text says what it was.
struct FIRESTEEL_API OpaqueConstant : torch::CustomClassHolder {
  explicit OpaqueConstant(std::string text) : text(std::move(text)) {}
  std::string text;
};

bool is_identifier(std::string_view text);   // letters, digits and '_', no digit first
bool is_dotted_name(std::string_view text);  // identifiers joined by '.'
std::string quote_text(std::string_view text, char quote = '"');
std::string float_text(double number);  // the shortest text that reads back to the same number

// Takes an Optional's inside: what a constant in this place is.
const c10::Type* slot_kind(const c10::Type* slot);
// The type of a list's elements, or null where the slot is no list.
const c10::Type* element_slot(const c10::Type* slot);

// Appends a constant. `slot` is the schema's type of its place, or null: it tells a dtype from a plain number.
void append_constant(std::string& out, const c10::IValue& value, const c10::Type* slot);
// The number that a word (`f32`, `strided`, `channels_last`) stands for in such a slot.
std::optional<int64_t> number_of_word(std::string_view word, const c10::Type* slot);
// Equal in kind and value; floats by their bits, so that 0.0 is not -0.0 and nan is nan.
FIRESTEEL_API bool same_constant(const c10::IValue& a, const c10::IValue& b);

// Appends a tree, its leaves written by `leaf(out, index)`.
using LeafText = std::function<void(std::string&, size_t)>;
void append_tree(std::string& out, const Tree& tree, const LeafText& leaf);

}  // namespace firesteel
