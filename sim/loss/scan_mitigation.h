#pragma once
// What to try against the danger that a scan shows, with its price computed from that scan.
//
// Worked example. Period 64 tokens, danger at residues [4, 12), a prompt whose residue is 6 today. Padding it to the middle of the safe
// stretch [12, 68), residue 40, takes 34 tokens now, at most 63, and 31.5 on average over prompts of any length. Padding only where it
// is needed takes 8, 7, .. 1 tokens at residues 4 .. 11: 36 / 64 = 0.56 tokens on average, at most 8. At 131,072 B a token the former
// costs 4.1 MB of KV cache a sequence on average.

#include <string>
#include <vector>

#include "loss/scan_diagnosis.h"

namespace kvtide::loss {

struct Mitigation {
  std::string name;
  std::string action;     ///< what to do, with this scan's numbers
  double mean_units = 0;  ///< more tokens (or characters) a request, on average
  double most_units = 0;
  double mean_bytes = kNotMeasured;  ///< KV bytes a sequence; NaN where bytes a token are not known
  double failing_after = 0;          ///< share of places expected to fail, from the danger found; NaN: not known
  std::string price;                 ///< one line: what it costs
};

struct MitigationQuestion {
  double kv_bytes_per_token = kNotMeasured;  ///< of the served model
  double current = kNotMeasured;             ///< place of today's prompt on the axis; NaN: the scan's first
};

/// Cheapest first. Empty without a period, or with one that endangers nothing.
[[nodiscard]] std::vector<Mitigation> mitigations_for(const OutsideScan& scan, const ScanDiagnosis& diagnosis,
                                                      const MitigationQuestion& question = {});

/// Tokens (or characters) that move residue `residue` out of every interval to avoid; 0 where it is safe.
[[nodiscard]] double padding_out_of_danger(const DangerZone& zone, double residue);

}  // namespace kvtide::loss
