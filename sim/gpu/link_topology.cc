#include "gpu/link_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>

#include "base/error.h"

namespace kvtide::gpu {
namespace {

struct Edge {
  double bandwidth = 0;   // B/s
  std::size_t index = 0;  // of the directed link
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;

constexpr std::int64_t kRanksPerPort = 2;

}  // namespace

struct LinkTopology::Impl {
  Graph graph;
  std::int64_t num_ranks = 0;
  std::vector<double> bandwidths;                            // [link]
  std::vector<std::vector<std::vector<std::size_t>>> route;  // [from][to] links in order

  void connect(std::size_t a, std::size_t b, double bandwidth) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      boost::add_edge(from, to, Edge{bandwidth, bandwidths.size()}, graph);
      bandwidths.push_back(bandwidth);
    }
  }

  void find_routes() {
    route.resize(static_cast<std::size_t>(num_ranks));
    for (std::size_t from = 0; from < route.size(); ++from) {
      std::vector<Graph::edge_descriptor> arrived(boost::num_vertices(graph));
      boost::breadth_first_search(graph, from,
                                  boost::visitor(boost::make_bfs_visitor(
                                      boost::record_edge_predecessors(arrived.data(), boost::on_tree_edge{}))));
      for (std::size_t to = 0; to < route.size(); ++to) {
        std::vector<std::size_t>& links = route[from].emplace_back();
        for (std::size_t at = to; at != from; at = boost::source(arrived[at], graph))
          links.push_back(graph[arrived[at]].index);
        std::ranges::reverse(links);
      }
    }
  }
};

LinkTopology::LinkTopology(const Interconnect& link, std::int64_t num_ranks) : impl_(std::make_unique<Impl>()) {
  if (num_ranks < 1 || num_ranks > link.max_ranks) {
    throw InputError(fmt::format("{} connects 1..{} GPUs, asked for {}", link.name, link.max_ranks, num_ranks));
  }
  impl_->num_ranks = num_ranks;
  const auto count = static_cast<std::size_t>(num_ranks);
  const bool has_hub = link.kind != LinkKind::mesh;
  for (std::size_t vertex = 0; vertex < count + (has_hub ? 1 : 0); ++vertex) boost::add_vertex(impl_->graph);
  const std::size_t hub = count;  // the switch, or the host
  for (std::size_t rank = 0; rank < count; ++rank) {
    if (link.kind == LinkKind::crossbar) impl_->connect(rank, hub, link.link_bandwidth);
    if (link.kind == LinkKind::root_complex) {
      impl_->connect(rank, hub, link.cross_bandwidth);
      if (rank % kRanksPerPort == 1) impl_->connect(rank - 1, rank, link.link_bandwidth);
    }
    if (link.kind == LinkKind::mesh)
      for (std::size_t other = 0; other < rank; ++other) impl_->connect(other, rank, link.link_bandwidth);
  }
  impl_->find_routes();
}
LinkTopology::~LinkTopology() = default;
LinkTopology::LinkTopology(LinkTopology&&) noexcept = default;

double LinkTopology::transfer_time(const std::vector<Transfer>& transfers) const {
  std::vector<double> load(impl_->bandwidths.size(), 0.0);
  for (const Transfer& transfer : transfers) {
    for (const std::size_t link :
         impl_->route[static_cast<std::size_t>(transfer.from)][static_cast<std::size_t>(transfer.to)])
      load[link] += transfer.bytes;
  }
  double slowest = 0;
  for (std::size_t link = 0; link < load.size(); ++link)
    slowest = std::max(slowest, load[link] / impl_->bandwidths[link]);
  return slowest;
}

std::int64_t LinkTopology::num_links(std::int64_t from, std::int64_t to) const {
  return static_cast<std::int64_t>(impl_->route[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)].size());
}

double LinkTopology::ring_time(double bytes_per_rank) const {
  std::vector<Transfer> transfers;
  for (std::int64_t rank = 0; rank < impl_->num_ranks; ++rank)
    transfers.push_back({rank, (rank + 1) % impl_->num_ranks, bytes_per_rank});
  return transfer_time(transfers);
}

double LinkTopology::direct_time(double bytes_per_rank) const {
  std::vector<Transfer> transfers;
  for (std::int64_t from = 0; from < impl_->num_ranks; ++from)
    for (std::int64_t to = 0; to < impl_->num_ranks; ++to)
      if (from != to) transfers.push_back({from, to, bytes_per_rank / static_cast<double>(impl_->num_ranks - 1)});
  return transfer_time(transfers);
}

}  // namespace kvtide::gpu
