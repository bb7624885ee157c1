// Where Firesteel keeps what later processes may use again.
#pragma once

#include <string>

namespace firesteel {

// A folder of that name where FIRESTEEL_CACHE_DIR says, else in the user's cache folder, made where it is missing.
// Empty where there is none to be had: FIRESTEEL_CACHE=0, or a folder that is not the user's alone (mode 0700, and
// owned by who runs the process). Asked at each use, so that a program may set the variables late.
std::string cache_folder(const char* name);

}  // namespace firesteel
