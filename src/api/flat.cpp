// Reading flat values back.
#include "firesteel/flat.h"

#include "base/error.h"
#include "firesteel/callable.h"

namespace firesteel {

std::string_view FlatReader::take(size_t size) {
  FS_REQUIRE(rest_.size() >= size, InputMismatchError, "a nested value ends before all its parts were read");
  std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

FlatTag FlatReader::peek() const {
  FS_REQUIRE(!rest_.empty(), InputMismatchError, "a nested value ends before all its parts were read");
  return static_cast<FlatTag>(rest_.front());
}

void FlatReader::expect(FlatTag tag) {
  const FlatTag found = peek();
  FS_REQUIRE(found == tag, InputMismatchError,
             "a nested value has another structure than its type (tag '{}' instead of '{}')", static_cast<char>(found),
             static_cast<char>(tag));
  rest_.remove_prefix(1);
}

at::Tensor FlatReader::tensor() {
  if (peek() == FlatTag::Undefined) {
    expect(FlatTag::Undefined);
    return {};
  }
  expect(FlatTag::Tensor);
  FS_REQUIRE(next_ < tensors_.size(), InputMismatchError, "a nested value has more tensors than were given");
  return tensors_[next_++];
}

int64_t FlatReader::integer() {
  int64_t number;
  std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
  return number;
}

double FlatReader::real() {
  double number;
  std::memcpy(&number, take(sizeof(number)).data(), sizeof(number));
  return number;
}

std::string FlatReader::text() {
  const int64_t size = integer();
  return std::string(take(static_cast<size_t>(size)));
}

namespace detail {

void refuse_changed_arguments(const FlatValues& before, const FlatValues& after) {
  bool same = after.structure == before.structure && after.tensors.size() == before.tensors.size();
  for (size_t i = 0; same && i < after.tensors.size(); ++i) same = after.tensors[i].is_same(before.tensors[i]);
  FS_REQUIRE(
      same, MutationError,
      "the traced function changes a container, number or tensor handle that it takes by reference: a graph could not "
      "repeat that\n  try: return the new value; writing into a tensor in place is fine");
}

}  // namespace detail
}  // namespace firesteel
