// What the disk delivers for reads like those of a decode: the ceiling that a run is held against.
#pragma once

namespace bmoe::backend {

class ExpertStore;

// Bytes per second of random slices of the model read by all lanes at once into the staging memory; the median of a few
// rounds, in about 0.1 s. 0 if a read failed. After set_cache(), with no other reads.
double measure_bandwidth(ExpertStore &store);

}  // namespace bmoe::backend
