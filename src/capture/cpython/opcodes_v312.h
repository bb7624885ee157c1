// The instructions of CPython 3.12 that the interpreter knows: opcode, handler. Those of the last list share a handler
// of the others.
#pragma once

namespace firesteel::capture {

constexpr int kCompareShift = 4;           // COMPARE_OP's argument has the operation above bits for CPython's own use
constexpr int kForIterSkips = 1;           // FOR_ITER jumps over END_FOR, its target
constexpr bool kSendKeepsReceiver = true;  // SEND leaves it to END_SEND to drop an iterator that is at its end

}  // namespace firesteel::capture

#define FIRESTEEL_INSTRUCTIONS(X)                       \
  X(NOP, nop)                                           \
  X(RESUME, resume)                                     \
  X(POP_TOP, pop_top)                                   \
  X(PUSH_NULL, push_null)                               \
  X(COPY, copy)                                         \
  X(SWAP, swap)                                         \
  X(LOAD_CONST, load_const)                             \
  X(LOAD_FAST, load_fast)                               \
  X(LOAD_FAST_AND_CLEAR, load_fast_and_clear)           \
  X(STORE_FAST, store_fast)                             \
  X(DELETE_FAST, delete_fast)                           \
  X(LOAD_GLOBAL, load_global)                           \
  X(STORE_GLOBAL, store_global)                         \
  X(DELETE_GLOBAL, delete_global)                       \
  X(MAKE_CELL, make_cell)                               \
  X(COPY_FREE_VARS, copy_free_vars)                     \
  X(LOAD_CLOSURE, load_closure)                         \
  X(LOAD_DEREF, load_deref)                             \
  X(STORE_DEREF, store_deref)                           \
  X(DELETE_DEREF, delete_deref)                         \
  X(LOAD_ATTR, load_attr)                               \
  X(LOAD_SUPER_ATTR, load_super_attr)                   \
  X(STORE_ATTR, store_attr)                             \
  X(DELETE_ATTR, delete_attr)                           \
  X(IMPORT_NAME, import_name)                           \
  X(IMPORT_FROM, import_from)                           \
  X(UNARY_NEGATIVE, unary_negative)                     \
  X(UNARY_INVERT, unary_invert)                         \
  X(UNARY_NOT, unary_not)                               \
  X(BINARY_OP, binary_op)                               \
  X(BINARY_SUBSCR, binary_subscr)                       \
  X(BINARY_SLICE, binary_slice)                         \
  X(STORE_SLICE, store_slice)                           \
  X(STORE_SUBSCR, store_subscr)                         \
  X(DELETE_SUBSCR, delete_subscr)                       \
  X(COMPARE_OP, compare_op)                             \
  X(IS_OP, is_op)                                       \
  X(CONTAINS_OP, contains_op)                           \
  X(BUILD_TUPLE, build_tuple)                           \
  X(BUILD_LIST, build_list)                             \
  X(BUILD_SET, build_set)                               \
  X(BUILD_MAP, build_map)                               \
  X(BUILD_CONST_KEY_MAP, build_const_key_map)           \
  X(BUILD_SLICE, build_slice)                           \
  X(BUILD_STRING, build_string)                         \
  X(FORMAT_VALUE, format_value)                         \
  X(LIST_APPEND, list_append)                           \
  X(LIST_EXTEND, list_extend)                           \
  X(SET_ADD, set_add)                                   \
  X(SET_UPDATE, set_update)                             \
  X(MAP_ADD, map_add)                                   \
  X(DICT_UPDATE, dict_update)                           \
  X(DICT_MERGE, dict_merge)                             \
  X(UNPACK_SEQUENCE, unpack_sequence)                   \
  X(UNPACK_EX, unpack_ex)                               \
  X(GET_LEN, get_len)                                   \
  X(MATCH_MAPPING, match_mapping)                       \
  X(MATCH_SEQUENCE, match_sequence)                     \
  X(MATCH_KEYS, match_keys)                             \
  X(MATCH_CLASS, match_class)                           \
  X(GET_ITER, get_iter)                                 \
  X(FOR_ITER, for_iter)                                 \
  X(END_FOR, end_for)                                   \
  X(JUMP_FORWARD, jump_forward)                         \
  X(JUMP_BACKWARD, jump_backward)                       \
  X(POP_JUMP_IF_TRUE, pop_jump_forward_if_true)         \
  X(POP_JUMP_IF_FALSE, pop_jump_forward_if_false)       \
  X(POP_JUMP_IF_NONE, pop_jump_forward_if_none)         \
  X(POP_JUMP_IF_NOT_NONE, pop_jump_forward_if_not_none) \
  X(KW_NAMES, kw_names)                                 \
  X(CALL, plain_call)                                   \
  X(CALL_FUNCTION_EX, call_function_ex)                 \
  X(CALL_INTRINSIC_1, call_intrinsic)                   \
  X(LOAD_BUILD_CLASS, load_build_class)                 \
  X(MAKE_FUNCTION, make_function)                       \
  X(RETURN_VALUE, return_value)                         \
  X(RETURN_CONST, return_const)                         \
  X(RAISE_VARARGS, raise_varargs)                       \
  X(RERAISE, reraise)                                   \
  X(LOAD_ASSERTION_ERROR, load_assertion_error)         \
  X(PUSH_EXC_INFO, push_exc_info)                       \
  X(POP_EXCEPT, pop_except)                             \
  X(CHECK_EXC_MATCH, check_exc_match)                   \
  X(BEFORE_WITH, before_with)                           \
  X(WITH_EXCEPT_START, with_except_start)               \
  X(GET_YIELD_FROM_ITER, get_yield_from_iter)           \
  X(SEND, send)                                         \
  X(END_SEND, end_send)                                 \
  X(CLEANUP_THROW, cleanup_throw)                       \
  X(YIELD_VALUE, yield_value)

// Of CALL_INTRINSIC_1, by its argument.
#define FIRESTEEL_INTRINSICS(X)                         \
  X(INTRINSIC_STOPITERATION_ERROR, stopiteration_error) \
  X(INTRINSIC_UNARY_POSITIVE, unary_positive)           \
  X(INTRINSIC_LIST_TO_TUPLE, list_to_tuple)

#define FIRESTEEL_HANDLERS(X) \
  FIRESTEEL_INSTRUCTIONS(X)   \
  FIRESTEEL_INTRINSICS(X)

#define FIRESTEEL_OPCODES(X)    \
  FIRESTEEL_INSTRUCTIONS(X)     \
  X(LOAD_FAST_CHECK, load_fast) \
  X(JUMP_BACKWARD_NO_INTERRUPT, jump_backward)
