// Marks what libfiresteel shows to its users; everything else is hidden.
#pragma once

#if defined(__GNUC__)
#define FIRESTEEL_API __attribute__((visibility("default")))
#else
#define FIRESTEEL_API
#endif
