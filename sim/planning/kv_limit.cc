#include "planning/kv_limit.h"

#include <fmt/format.h>

namespace kvtide::planning {

std::string KvLimit::text() const {
  if (!is_known) return "The KV cache: uncompressed, no fleet keeps the objectives.";
  const auto more = [&](double other, double base) { return fmt::format("{:+.0f} %", 100 * (other / base - 1)); };
  const std::string figures = fmt::format(
      "{} carries {:.3g} requests/s uncompressed, {:.3g} with cache memory without limit ({}), {:.3g} if reading it "
      "cost "
      "nothing too ({}); at most {:.0f} % of its pages are taken",
      setting, rate, rate_unlimited, more(rate_unlimited, rate), rate_free, more(rate_free, rate), 100 * used_share);
  if (is_memory() && is_bandwidth()) return "The KV cache is the limit, its memory and its bandwidth: " + figures + ".";
  if (is_memory()) return "The KV cache is the limit, its memory: " + figures + ".";
  if (is_bandwidth()) return "The KV cache is the limit, its bandwidth: " + figures + ".";
  return "The KV cache is not the limit: " + figures + ".";
}

KvLimit kv_limit_of(const experiment::Run& run, const Policy& uncompressed, const Model& model, gpu::Gpu& gpu,
                    const Traffic& traffic, const Plan& plan, std::int64_t replicas, double start) {
  KvLimit limit;
  Replica plain(run, uncompressed, model, gpu, traffic.longest, plan.calibration);
  const CarriedRate carried = rate_carried(plain, traffic, plan, replicas, start, Scope::everything);
  if (carried.rate <= 0) return limit;
  Replica unlimited(run, uncompressed, model, gpu, traffic.longest, plan.calibration, {.has_unlimited_cache = true});
  Replica free(run, uncompressed, model, gpu, traffic.longest, plan.calibration,
               {.has_unlimited_cache = true, .has_free_attention = true});
  limit.is_known = true;
  limit.setting = fmt::format("{} x {} ({} a replica)", replicas * run.setting.tensor_parallel, gpu.profile().name,
                              run.setting.tensor_parallel);
  limit.rate = carried.rate;
  limit.used_share = carried.experience.used_share;
  limit.rate_unlimited = rate_carried(unlimited, traffic, plan, replicas, carried.rate, Scope::everything).rate;
  limit.rate_free = rate_carried(free, traffic, plan, replicas, limit.rate_unlimited, Scope::everything).rate;
  return limit;
}

}  // namespace kvtide::planning
