// The small SigLIP on 64 tiles, compiled once: three layers, so that a Repeat has patches and moving senders.
#pragma once
#include <cstdint>

#include "compile/compile.h"
#include "model/model.h"
#include "package/package.h"

namespace tw::inspect {

struct SmallPackage {
  Device device = c600();
  compile::Options options;
  compile::Result result;
  package::Package package;  // without weights
};

inline const SmallPackage& small_package() {
  static const SmallPackage made = [] {
    SmallPackage p;
    model::Config config;
    config.name = "siglip-so400m";
    config.small = true;
    config.layers = 3;
    config.batch = 2;
    const model::Model model = model::build(config);
    p.options.plan.tiles = 64;
    Progress quiet(ProgressMode::Never);
    p.result = compile::compile(p.device, model.graph, p.options, quiet);
    p.package.image = p.result.image;
    p.package.side = p.result.side;
    return p;
  }();
  return made;
}

}  // namespace tw::inspect
