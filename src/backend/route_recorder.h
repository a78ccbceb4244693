// What a route trace holds of a routing decision: the decision, and the router's scores where they can be computed again.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/route_observer.h"
#include "cache/route_trace_writer.h"

namespace bmoe::backend {

class ExpertStore;

// The thread that decodes calls it.
class RouteRecorder : public RouteObserver {
  public:
    // `writer` must outlive it.
    explicit RouteRecorder(cache::RouteTraceWriter &writer) : writer_(writer) {}

    void on_routing(const ObservedRouting &routing, RouterGuess &routers) override;

  private:
    bool add_scores(const ObservedRouting &routing, uint32_t token, RouterGuess &routers);

    cache::RouteTraceWriter &writer_;
    std::vector<int32_t> highest_;
    std::vector<cache::RouterScore> scores_;
};

// The header of a trace of what `store` serves.
cache::RouteTraceHeader route_trace_header(ExpertStore &store);

}  // namespace bmoe::backend
