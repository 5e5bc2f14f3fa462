#include "gpu/kernel_set.h"

#include "base/data_directory.h"
#include "gpu/fact_reader.h"

namespace kvtide::gpu {
namespace {

/// See KernelSet::prefill_kernel.
template <typename Kernel, typename Work>
const Kernel& nearest_kernel(const std::vector<Kernel>& kernels, const Work& work) {
  const Kernel* of_any = nullptr;
  const std::string& wanted = work.kernel.empty() ? kernels.front().framework : work.kernel;
  for (const Kernel& kernel : kernels) {
    if (kernel.name == work.kernel) return kernel;
  }
  for (const Kernel& kernel : kernels) {
    if (!kernel.serves(work)) continue;
    if (kernel.framework == wanted) return kernel;
    if (of_any == nullptr) of_any = &kernel;
  }
  return of_any != nullptr ? *of_any : kernels.front();
}

/// Reads the list below `key`; each record's facts get its name in front.
template <typename Read>
auto read_list(const config::Value& root, std::string_view key, std::vector<ProfileFact>& facts, const Read& read) {
  const config::Value list = root.at(key);
  std::vector<decltype(read(root, facts))> kernels;
  for (const config::Value& item : list.items()) kernels.push_back(read(item, facts));
  if (kernels.empty()) list.error("expected at least one kernel");
  return kernels;
}

}  // namespace

const PrefillKernel& KernelSet::prefill_kernel(const PrefillAttentionWork& work) const {
  return nearest_kernel(prefill, work);
}

const GemmKernel& KernelSet::gemm_kernel(const GemmWork& work) const {
  return nearest_kernel(gemm, work);
}

const QuantizeKernel& KernelSet::quantize_kernel(const QuantizeWork& work) const {
  return nearest_kernel(quantize, work);
}

KernelSet load_kernel_set(const std::string& name_or_path, std::vector<ProfileFact>& fact_list) {
  const config::Document document =
      config::Document::load(find_data_file("hw_profiles/kernel_sets", name_or_path, {".yaml"}));
  const config::Value root = document.root();
  std::vector<ProfileFact> own;
  KernelSet set;
  set.name = root.string("name");
  if (root.at("matmul_share").exists()) set.matmul_share = FactReader(root, own).number("matmul_share", 0.01, 1);
  set.prefill = read_list(root, "prefill_kernels", own, read_prefill_kernel);
  set.gemm = read_list(root, "gemm_kernels", own, read_gemm_kernel);
  set.quantize = read_list(root, "quantize_kernels", own, read_quantize_kernel);
  root.finish();
  document.throw_if_errors();
  for (ProfileFact& fact : own) {
    fact_list.push_back({set.name + "." + fact.key, std::move(fact.value), std::move(fact.source)});
  }
  return set;
}

}  // namespace kvtide::gpu
