// pie:core/scheduling: the market, read from inside. Numbers may trail the step thread by a step.
#include "host/api.h"

namespace pie::host {
namespace {

Result<Scheduler*> SchedulerOf(Process& process, uint32_t model) {
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  return process.engine().models()[index].scheduler.get();
}

}  // namespace

Result<double> SchedulingPrice(Process&) {
  return static_cast<double>(kPagePrice) / kCredit;
}

Result<double> SchedulingRent(Process& process, uint32_t context) {
  return PIE_TRY(process.handles().contexts.Get(context))->scheduler().stats().price;
}

Result<double> SchedulingDividend(Process& process, uint32_t model) {
  return process.wallet().dividend(*PIE_TRY(SchedulerOf(process, model)));
}

Result<double> SchedulingLatency(Process& process, uint32_t context) {
  return PIE_TRY(process.handles().contexts.Get(context))->scheduler().stats().last_step_seconds;
}

Result<double> SchedulingBalance(Process& process, uint32_t model) {
  return process.wallet().balance(*PIE_TRY(SchedulerOf(process, model)));
}

}  // namespace pie::host
