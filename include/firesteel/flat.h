// Nested values laid flat: their tensors in a row, and everything else about them as a string of bytes.
//
// Two calls with equal structures nest alike and hold the same constants, so the structure is both the key that graphs
// are found by and the recipe that results are rebuilt from.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "firesteel/export.h"

namespace firesteel {

struct FlatValues {
  std::vector<at::Tensor> tensors;
  std::string structure;
};

// The first byte of each part of a structure. Numbers follow as 8 bytes; texts as their length and characters.
enum class FlatTag : char {
  Tensor = 'T',
  Undefined = 'U',  // a tensor that is none
  None = 'N',       // an empty optional
  Some = 'O',       // an optional's value follows
  Int = 'i',        // constants: part of the structure
  Double = 'd',
  Bool = 'b',
  Text = 's',
  List = 'L',    // count, items
  Tuple = 't',   // count, items
  Dict = 'D',    // count, pairs of text and item
  Struct = 'S',  // name, count, items
};

class FlatWriter {
 public:
  void tensor(const at::Tensor& tensor) {
    tag(tensor.defined() ? FlatTag::Tensor : FlatTag::Undefined);
    if (tensor.defined()) values_.tensors.push_back(tensor);
  }
  void tag(FlatTag tag) { values_.structure.push_back(static_cast<char>(tag)); }
  void number(int64_t number) { bytes(&number, sizeof(number)); }
  void number(double number) { bytes(&number, sizeof(number)); }
  void text(std::string_view text) {
    number(static_cast<int64_t>(text.size()));
    bytes(text.data(), text.size());
  }

  FlatValues take() { return std::move(values_); }

 private:
  void bytes(const void* data, size_t size) { values_.structure.append(static_cast<const char*>(data), size); }
  FlatValues values_;
};

// Reads back what a FlatWriter wrote, in the same order. Throws InputMismatchError where the structure is another.
class FIRESTEEL_API FlatReader {
 public:
  FlatReader(const std::vector<at::Tensor>& tensors, std::string_view structure)
      : tensors_(tensors), rest_(structure) {}

  at::Tensor tensor();
  FlatTag peek() const;
  void expect(FlatTag tag);
  int64_t integer();
  double real();
  std::string text();
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(size_t size);

  const std::vector<at::Tensor>& tensors_;
  size_t next_ = 0;
  std::string_view rest_;
};

}  // namespace firesteel
