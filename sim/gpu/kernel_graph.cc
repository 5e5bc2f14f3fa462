#include "gpu/kernel_graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace kvtide::gpu {

struct KernelGraph::Impl {
  struct Kernel {
    std::string kernel_class;
    Picoseconds duration{0};
    std::int64_t stage = 0;
    std::int64_t stream = 0;
  };
  boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Kernel> graph;
};

KernelGraph::KernelGraph() : impl_(std::make_unique<Impl>()) {}
KernelGraph::~KernelGraph() = default;
KernelGraph::KernelGraph(KernelGraph&&) noexcept = default;

KernelIndex KernelGraph::add(std::string kernel_class, Picoseconds duration, const std::vector<KernelIndex>& after,
                             std::int64_t stage, std::int64_t stream) {
  const KernelIndex added = boost::add_vertex({std::move(kernel_class), duration, stage, stream}, impl_->graph);
  for (const KernelIndex before : after) {
    KVTIDE_ASSERT(before < added, "a kernel depends on one that was added earlier");
    boost::add_edge(before, added, impl_->graph);
  }
  return added;
}

KernelSchedule KernelGraph::schedule() const {
  const auto& graph = impl_->graph;
  KernelSchedule schedule;
  schedule.kernels.resize(boost::num_vertices(graph));
  std::vector<KernelIndex> last_to_first;
  last_to_first.reserve(schedule.kernels.size());
  boost::topological_sort(graph, std::back_inserter(last_to_first));

  for (auto place = last_to_first.rbegin(); place != last_to_first.rend(); ++place) {
    ScheduledKernel& kernel = schedule.kernels[*place];
    kernel.kernel_class = graph[*place].kernel_class;
    kernel.duration = graph[*place].duration;
    kernel.stage = graph[*place].stage;
    kernel.stream = graph[*place].stream;
    for (const auto edge : boost::make_iterator_range(boost::in_edges(*place, graph))) {
      const ScheduledKernel& before = schedule.kernels[boost::source(edge, graph)];
      kernel.start = std::max(kernel.start, before.start + before.duration);
    }
    schedule.duration = std::max(schedule.duration, kernel.start + kernel.duration);
  }
  for (const KernelIndex index : last_to_first) {
    ScheduledKernel& kernel = schedule.kernels[index];
    Picoseconds latest_end = schedule.duration;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(index, graph))) {
      const ScheduledKernel& next = schedule.kernels[boost::target(edge, graph)];
      latest_end = std::min(latest_end, next.start + next.slack);
    }
    kernel.slack = latest_end - kernel.duration - kernel.start;
  }
  return schedule;
}

}  // namespace kvtide::gpu
