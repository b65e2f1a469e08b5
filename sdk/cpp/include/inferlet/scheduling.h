// Prices and balances of the market for KV pages. Context::SetBid and Generators place bids.
#pragma once

#include "inferlet/context.h"
#include "inferlet/model.h"

namespace inferlet::scheduling {

double Price();                          // credits that a new page costs
double Rent(const Context& context);     // the clearing price of the last auction
double Dividend(const Model& model);     // this inferlet's share of the last revenue
double Latency(const Context& context);  // the duration of the last batch, in seconds
double Balance(const Model& model);      // this inferlet's credits

}  // namespace inferlet::scheduling
