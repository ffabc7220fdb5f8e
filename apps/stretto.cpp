#include "cli/verbs.h"

int main(int argc, char** argv) { return stretto::cli::run(argc, argv); }
