#include "tools/ipu_e2e.h"

int main(int argc, char** argv) { return tw::tools::ipu_e2e_test(argc, argv); }
