// The slow headers of the extension module, compiled once. Python's come first, as Python wants it.
#pragma once

#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/precompiled.h"
