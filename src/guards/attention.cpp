// Reads and sets torch's choice of attention.
#include "guards/attention.h"

#include <vector>

#include <ATen/Context.h>

namespace firesteel::guards {

AttentionChoice AttentionChoice::current() {
  at::Context& context = at::globalContext();
  return {{context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
           context.userEnabledCuDNNSDP(), context.userEnabledOverrideableSDP()},
          context.sDPPriorityOrder()};
}

void AttentionChoice::apply() const {
  at::Context& context = at::globalContext();
  context.setSDPUseFlash(enabled[0]);
  context.setSDPUseMemEfficient(enabled[1]);
  context.setSDPUseMath(enabled[2]);
  context.setSDPUseCuDNN(enabled[3]);
  context.setSDPUseOverrideable(enabled[4]);
  std::vector<int64_t> wanted;
  for (at::SDPBackend backend : order) wanted.push_back(static_cast<int64_t>(backend));
  if (order != context.sDPPriorityOrder()) context.setSDPPriorityOrder(wanted);
}

}  // namespace firesteel::guards
