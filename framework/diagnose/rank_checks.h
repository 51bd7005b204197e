// The part of dml doctor that compares ranks: whether they run the same program on similar processors, and how fast
// their links are.
#pragma once

#include <string>

#include "diagnose/doctor.h"
#include "dist/comm.h"

namespace dml {

/// "0-3,8": the cores that this process may use.
std::string affinity_text();
/// Fills `ranks`, `links` and findings. A collective.
void examine_ranks(Comm& comm, Diagnosis& out);

}  // namespace dml
