#include "tools/commands.h"

int main(int argc, char** argv) { return tw::tools::tilewright(argc, argv); }
