// The local optimiser (compiler.md 11): a hill climb over the planner's choices. The incumbent is a complete,
// built result; a proposal replaces candidates of operations, is estimated first and then built in full.
#pragma once
#include "compile/compile.h"

namespace tw::compile {

// compile() with options.plan.choices as the baseline, then at most options.optimization_steps further
// complete builds. A proposal is accepted when it fits and its scheduled cycles are fewer; the first in order
// of estimated cycles wins. 0 steps: the baseline. A baseline that does not fit throws as compile() does: the
// optimiser is no search for a plan that fits. Deterministic; counts attempts, not seconds.
Result optimise(const Device& device, const graph::Graph& graph, const Options& options, Progress& progress);

// Candidates by operation path, as Options::choices takes them.
using Candidates = std::map<std::string, std::uint32_t>;
Candidates candidates_of(const std::vector<plan::Choice>& choices);

// Proposals of one round: every operation with each of its fastest alternatives (at most four), and all
// operations with their fastest one at once. `choices` are the baseline's, with estimates; `current` is the
// incumbent's.
std::vector<Candidates> proposals(const std::vector<plan::Choice>& choices, const Candidates& current);

}  // namespace tw::compile
