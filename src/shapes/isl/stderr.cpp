// The stream that isl and gmp print to, named so in their archives (../CMakeLists.txt). Hidden: a shared library finds
// its own data at a fixed distance, libc's it does not.
#include <cstdio>

extern "C" {
__attribute__((visibility("hidden"))) FILE* firesteel_isl_stderr = stderr;
}
