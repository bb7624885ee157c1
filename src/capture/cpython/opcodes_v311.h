// The instructions of CPython 3.11 that the interpreter knows: opcode, handler. Those of the second list share a
// handler of the first.
#pragma once

namespace firesteel::capture {

constexpr int kCompareShift = 0;            // COMPARE_OP's argument is the operation
constexpr int kForIterSkips = 0;            // FOR_ITER jumps to its target
constexpr bool kSendKeepsReceiver = false;  // SEND drops an iterator that is at its end

}  // namespace firesteel::capture

#define FIRESTEEL_HANDLERS(X)                                     \
  X(NOP, nop)                                                     \
  X(RESUME, resume)                                               \
  X(POP_TOP, pop_top)                                             \
  X(PUSH_NULL, push_null)                                         \
  X(COPY, copy)                                                   \
  X(SWAP, swap)                                                   \
  X(LOAD_CONST, load_const)                                       \
  X(LOAD_FAST, load_fast)                                         \
  X(STORE_FAST, store_fast)                                       \
  X(DELETE_FAST, delete_fast)                                     \
  X(LOAD_GLOBAL, load_global)                                     \
  X(STORE_GLOBAL, store_global)                                   \
  X(DELETE_GLOBAL, delete_global)                                 \
  X(MAKE_CELL, make_cell)                                         \
  X(COPY_FREE_VARS, copy_free_vars)                               \
  X(LOAD_CLOSURE, load_closure)                                   \
  X(LOAD_DEREF, load_deref)                                       \
  X(STORE_DEREF, store_deref)                                     \
  X(DELETE_DEREF, delete_deref)                                   \
  X(LOAD_ATTR, load_attr)                                         \
  X(LOAD_METHOD, load_bound_method)                               \
  X(STORE_ATTR, store_attr)                                       \
  X(DELETE_ATTR, delete_attr)                                     \
  X(IMPORT_NAME, import_name)                                     \
  X(IMPORT_FROM, import_from)                                     \
  X(UNARY_POSITIVE, unary_positive)                               \
  X(UNARY_NEGATIVE, unary_negative)                               \
  X(UNARY_INVERT, unary_invert)                                   \
  X(UNARY_NOT, unary_not)                                         \
  X(BINARY_OP, binary_op)                                         \
  X(BINARY_SUBSCR, binary_subscr)                                 \
  X(STORE_SUBSCR, store_subscr)                                   \
  X(DELETE_SUBSCR, delete_subscr)                                 \
  X(COMPARE_OP, compare_op)                                       \
  X(IS_OP, is_op)                                                 \
  X(CONTAINS_OP, contains_op)                                     \
  X(BUILD_TUPLE, build_tuple)                                     \
  X(BUILD_LIST, build_list)                                       \
  X(BUILD_SET, build_set)                                         \
  X(BUILD_MAP, build_map)                                         \
  X(BUILD_CONST_KEY_MAP, build_const_key_map)                     \
  X(BUILD_SLICE, build_slice)                                     \
  X(BUILD_STRING, build_string)                                   \
  X(FORMAT_VALUE, format_value)                                   \
  X(LIST_APPEND, list_append)                                     \
  X(LIST_EXTEND, list_extend)                                     \
  X(LIST_TO_TUPLE, list_to_tuple)                                 \
  X(SET_ADD, set_add)                                             \
  X(SET_UPDATE, set_update)                                       \
  X(MAP_ADD, map_add)                                             \
  X(DICT_UPDATE, dict_update)                                     \
  X(DICT_MERGE, dict_merge)                                       \
  X(UNPACK_SEQUENCE, unpack_sequence)                             \
  X(UNPACK_EX, unpack_ex)                                         \
  X(GET_LEN, get_len)                                             \
  X(MATCH_MAPPING, match_mapping)                                 \
  X(MATCH_SEQUENCE, match_sequence)                               \
  X(MATCH_KEYS, match_keys)                                       \
  X(MATCH_CLASS, match_class)                                     \
  X(GET_ITER, get_iter)                                           \
  X(FOR_ITER, for_iter)                                           \
  X(JUMP_FORWARD, jump_forward)                                   \
  X(JUMP_BACKWARD, jump_backward)                                 \
  X(POP_JUMP_FORWARD_IF_TRUE, pop_jump_forward_if_true)           \
  X(POP_JUMP_FORWARD_IF_FALSE, pop_jump_forward_if_false)         \
  X(POP_JUMP_BACKWARD_IF_TRUE, pop_jump_backward_if_true)         \
  X(POP_JUMP_BACKWARD_IF_FALSE, pop_jump_backward_if_false)       \
  X(POP_JUMP_FORWARD_IF_NONE, pop_jump_forward_if_none)           \
  X(POP_JUMP_FORWARD_IF_NOT_NONE, pop_jump_forward_if_not_none)   \
  X(POP_JUMP_BACKWARD_IF_NONE, pop_jump_backward_if_none)         \
  X(POP_JUMP_BACKWARD_IF_NOT_NONE, pop_jump_backward_if_not_none) \
  X(JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop)                     \
  X(JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop)                   \
  X(KW_NAMES, kw_names)                                           \
  X(CALL, plain_call)                                             \
  X(CALL_FUNCTION_EX, call_function_ex)                           \
  X(LOAD_BUILD_CLASS, load_build_class)                           \
  X(MAKE_FUNCTION, make_function)                                 \
  X(RETURN_VALUE, return_value)                                   \
  X(RAISE_VARARGS, raise_varargs)                                 \
  X(RERAISE, reraise)                                             \
  X(LOAD_ASSERTION_ERROR, load_assertion_error)                   \
  X(PUSH_EXC_INFO, push_exc_info)                                 \
  X(POP_EXCEPT, pop_except)                                       \
  X(CHECK_EXC_MATCH, check_exc_match)                             \
  X(BEFORE_WITH, before_with)                                     \
  X(WITH_EXCEPT_START, with_except_start)                         \
  X(GET_YIELD_FROM_ITER, get_yield_from_iter)                     \
  X(SEND, send)                                                   \
  X(YIELD_VALUE, yield_value)

#define FIRESTEEL_OPCODES(X) \
  FIRESTEEL_HANDLERS(X)      \
  X(PRECALL, nop)            \
  X(JUMP_BACKWARD_NO_INTERRUPT, jump_backward)
