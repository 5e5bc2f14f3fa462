#include "gpu/operand_format.h"

#include <algorithm>

#include "gpu/gpu_profile.h"

namespace kvtide::gpu {

const std::vector<std::string>& operand_format_names() {
  static const std::vector<std::string> names{"bfloat16", "fp8",   "fp8_block", "sq",      "int8_wo",
                                              "int4_wo",  "nvfp4", "nvfp4_wo",  "mxfp4_wo"};
  return names;
}

std::string_view to_string(OperandFormat format) {
  return operand_format_names()[static_cast<std::size_t>(format)];
}

bool from_string(std::string_view text, OperandFormat& format) {
  const auto place = std::ranges::find(operand_format_names(), text);
  if (place == operand_format_names().end()) return false;
  format = static_cast<OperandFormat>(place - operand_format_names().begin());
  return true;
}

double weight_bytes(OperandFormat format) {
  switch (format) {
    case OperandFormat::bfloat16:
      return 2;
    case OperandFormat::fp8:
    case OperandFormat::sq:
    case OperandFormat::int8_wo:
      return 1;
    case OperandFormat::fp8_block:
      return 1 + 4.0 / (128 * 128);
    case OperandFormat::int4_wo:
      return 0.5;
    case OperandFormat::nvfp4:
    case OperandFormat::nvfp4_wo:
      return 0.5 + 1.0 / 16;
    case OperandFormat::mxfp4_wo:
      return 0.5 + 1.0 / 32;
  }
  return 2;
}

double activation_bytes(OperandFormat format) {
  switch (format) {
    case OperandFormat::bfloat16:
    case OperandFormat::int8_wo:
    case OperandFormat::int4_wo:
    case OperandFormat::nvfp4_wo:
    case OperandFormat::mxfp4_wo:
      return 2;
    case OperandFormat::fp8:
    case OperandFormat::sq:
      return 1;
    case OperandFormat::fp8_block:
      return 1 + 4.0 / 128;
    case OperandFormat::nvfp4:
      return 0.5 + 1.0 / 16;
  }
  return 2;
}

double tensor_rate(const GpuProfile& profile, OperandFormat format) {
  double rate = 0;
  switch (format) {
    case OperandFormat::bfloat16:
    case OperandFormat::int8_wo:
    case OperandFormat::int4_wo:
    case OperandFormat::nvfp4_wo:
    case OperandFormat::mxfp4_wo:
      return profile.tensor_flops_16bit * profile.tensor_derating;
    case OperandFormat::fp8:
    case OperandFormat::fp8_block:
      rate = profile.tensor_flops_8bit;
      break;
    case OperandFormat::sq:
      rate = profile.tensor_ops_int8;
      break;
    case OperandFormat::nvfp4:
      rate = profile.tensor_flops_4bit;
      break;
  }
  return (rate > 0 ? rate : profile.tensor_flops_16bit) * profile.tensor_derating;
}

OperandFormat executed_format(const GpuProfile& profile, OperandFormat format) {
  switch (format) {
    case OperandFormat::fp8:
    case OperandFormat::fp8_block:
      return profile.tensor_flops_8bit > 0 ? format : OperandFormat::int8_wo;
    case OperandFormat::sq:
      return profile.tensor_ops_int8 > 0 ? format : OperandFormat::int8_wo;
    case OperandFormat::nvfp4:
      return profile.tensor_flops_4bit > 0 ? format : OperandFormat::nvfp4_wo;
    case OperandFormat::bfloat16:
    case OperandFormat::int8_wo:
    case OperandFormat::int4_wo:
    case OperandFormat::nvfp4_wo:
    case OperandFormat::mxfp4_wo:
      return format;
  }
  return format;
}

}  // namespace kvtide::gpu
