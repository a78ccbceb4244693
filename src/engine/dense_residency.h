// How much of a model's dense weights is in memory.
#pragma once

#include "engine/engine.h"

namespace bmoe::engine {

// The share, 0..1, of the pages of all weights but routed experts that are in memory now; -1 where the system does not tell.
double dense_resident_fraction(const Engine &engine);

}  // namespace bmoe::engine
