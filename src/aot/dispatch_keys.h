// Which dispatch keys a trace uses and hides: the one place for facts of torch's dispatcher.
//
// Order of keys, outermost first: Entry (ours) > Autocast > Autograd > ADInplaceOrView > Functionalize > Python > Fake
// (ours). torch 2.11 has Fake above Python; nothing here depends on it, as the Fake kernel hides both.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace firesteel {

// Every operator called while tracing passes here first, before autograd sees it, so that real tensors can be replaced
// by stand-ins. torch reserves this key for extensions and registers nothing on it.
inline constexpr c10::DispatchKey kEntryKey = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::Fake;

// What must not see the meta tensors that a shape is computed on.
inline const c10::DispatchKeySet kAboveMeta =
    c10::DispatchKeySet({kEntryKey, kFakeKey, c10::DispatchKey::Functionalize, c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot}) |
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// Runs a scope as if no trace were going on: real tensors stay real, nothing is recorded.
class OutsideTrace {
 public:
  OutsideTrace() : guard_(kAboveMeta) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

}  // namespace firesteel
