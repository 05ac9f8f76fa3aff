"""Options and start of the compiler of kernels, and functions written as LLVM instructions."""
