#include "gpu/interconnect.h"

#include "base/data_directory.h"
#include "gpu/fact_reader.h"

namespace kvtide::gpu {
namespace {

using config::Value;

constexpr double kMaxBandwidth = 1e15;  // B/s

void read_link(const Value& root, Interconnect& link, std::vector<ProfileFact>& facts) {
  FactReader topology(root.at("topology"), facts);
  const std::string kind = topology.choice("kind", {"switch", "mesh", "root_complex"});
  link.kind = kind == "mesh" ? LinkKind::mesh : kind == "root_complex" ? LinkKind::root_complex : LinkKind::crossbar;
  link.max_ranks = topology.integer("max_ranks", 1, 1024);
  FactReader wire(root.at("link"), facts);
  link.link_bandwidth = wire.quantity("bandwidth", positive_quantity(Dimension::bandwidth, kMaxBandwidth));
  link.link_latency = wire.quantity("latency", seconds());
  if (link.kind == LinkKind::root_complex)
    link.cross_bandwidth = wire.quantity("cross_bandwidth", positive_quantity(Dimension::bandwidth, kMaxBandwidth));
}

void read_peer_kernels(const Value& map, Interconnect& link, std::vector<ProfileFact>& facts) {
  FactReader peer(map, facts);
  if (peer.raw("lamport_launch").exists()) link.lamport_launch = peer.quantity("lamport_launch", seconds());
  link.one_shot_launch = peer.quantity("one_shot_launch", seconds());
  link.two_shot_launch = peer.quantity("two_shot_launch", seconds());
  link.one_shot_share = peer.number("one_shot_share", 0.01, 1);
  link.two_shot_share = peer.number("two_shot_share", 0.01, 1);
  const config::QuantityRule size{.dimension = Dimension::size, .fallback = {}, .min = 0, .max = 1e12};
  for (const Value& limit : map.at("limits").items()) {
    link.limits.push_back({limit.integer("ranks", {.fallback = {}, .min = 2, .max = 1024}),
                           static_cast<Bytes>(limit.quantity("custom", size)),
                           static_cast<Bytes>(limit.quantity("symmetric", size))});
  }
}

}  // namespace

Interconnect load_interconnect(const std::string& name_or_path, std::vector<ProfileFact>& facts) {
  const std::string path = find_data_file("hw_profiles/interconnects", name_or_path, {".yaml"});
  const config::Document document = config::Document::load(path);
  const Value root = document.root();
  Interconnect link;
  link.name = root.string("name");
  std::vector<ProfileFact> read;
  read_link(root, link, read);
  FactReader ring(root.at("ring"), read);
  link.ring_launch = ring.quantity("launch", seconds());
  link.ring_ramp = ring.quantity("ramp", seconds());
  link.ring_step_sync = ring.quantity("step_sync", seconds());
  link.ring_small_share = ring.number("small_share", 0.01, 1);
  link.ring_large_share = ring.number("large_share", 0.01, 1);
  if (const Value map = root.at("in_switch"); map.exists()) {
    FactReader in_switch(map, read);
    link.switch_ramp = in_switch.quantity("ramp", seconds());
    link.switch_share = in_switch.number("share", 0.01, 1);
  }
  if (const Value map = root.at("peer_kernels"); map.exists()) read_peer_kernels(map, link, read);
  FactReader host(root, read);
  link.host_launch = host.quantity("host_launch", seconds());
  root.finish();
  document.throw_if_errors();
  facts.push_back({"interconnect", link.name, path.substr(path.rfind('/') + 1)});
  for (ProfileFact& fact : read)
    facts.push_back({"interconnect." + fact.key, std::move(fact.value), std::move(fact.source)});
  return link;
}

}  // namespace kvtide::gpu
