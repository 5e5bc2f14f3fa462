#pragma once
// Eight numbers that the compiler keeps in one register, or in two or four of a narrower processor.

#include <cstring>

namespace kvtide::loss {

using Eight = double __attribute__((vector_size(64)));

// Copied from and to any address: compilers disagree on what an alignment written beside the vector's size means.
// Always inlined: by themselves these would be compiled for the narrowest registers.

[[gnu::always_inline]] inline void load(const double* from, Eight& eight) {
  std::memcpy(&eight, from, sizeof eight);
}

[[gnu::always_inline]] inline void load(const float* from, Eight& eight) {
  using EightFloats = float __attribute__((vector_size(32)));
  EightFloats narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  eight = __builtin_convertvector(narrow, Eight);
}

[[gnu::always_inline]] inline void store(const Eight& eight, double* to) {
  std::memcpy(to, &eight, sizeof eight);
}

}  // namespace kvtide::loss
