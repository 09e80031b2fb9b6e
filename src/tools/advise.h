// What would make a model fit, found by planning other options.
#pragma once
#include "base/error.h"
#include "tools/pipeline.h"

namespace tw::tools {

// `error`, when it says that `recipe` does not fit by its bytes, with up to three changes: plans of other
// policies, attentions, precisions and batches, those estimated to fit first, then by the bytes that they
// save on the fullest tile. Other errors as they are. Plans about log2(batch) + 3 times.
Error advised(const Host& host, const Recipe& recipe, const Error& error);

}  // namespace tw::tools
