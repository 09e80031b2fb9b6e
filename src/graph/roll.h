// Repeated layers as one Repeat (compiler.md 1.3). Models that were written layer by layer get the program of
// one layer and their weights in sequences.
#pragma once
#include "graph/graph.h"

namespace tw::graph {

// A graph with the same inputs, parameters and results, in which runs of equal layers are Repeats. A layer is
// rolled when it has two products of weights at least, differs from the one before it in parameters only, and
// hands over nothing but values of the shapes that it gets. Paths of the body and names of sequences are
// those of the layers with "{}" where they differ.
Graph roll_layers(Graph graph);

}  // namespace tw::graph
