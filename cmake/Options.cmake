option(NCCL_CHECK_TESTS "Build the unit tests and test programs" ON)
option(NCCL_CHECK_BENCH "Build the programs under tests/bench" ON)
option(NCCL_CHECK_FUZZ "Build the fuzzers (needs clang with libFuzzer)" OFF)
set(NCCL_CHECK_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them (address,undefined or thread)")
set(NCCL_CHECK_SLURM_PLUGIN_DIR "" CACHE PATH
    "Where Slurm looks for plugins; empty: found beside libslurm")
set(NCCL_CHECK_CONFIG "${CMAKE_INSTALL_FULL_SYSCONFDIR}/nccl-check/nccl-check.toml" CACHE FILEPATH
    "The configuration file that is read unless a plugstack argument or option names another")
