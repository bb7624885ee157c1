// Tensors as keys: a dict or set from outside holds the tensors themselves, captured code their stand-ins, which hash
// differently.
#pragma once

#include "capture/capture.h"

namespace firesteel::capture {

// What a container is asked for, or given: its hash is looked at. Ends the capture where the container comes from
// outside and the key is a tensor, or holds one: eagerly it is found.
void watch_key(Capture& capture, PyObject* container, PyObject* key);
// The same for a container that is only asked for the key, which is then given as the container knows it.
PyRef asked_key(Capture& capture, PyObject* container, PyObject* key);
// The same for what `update` is given: a dict, a set, items, or pairs of key and value.
void watch_keys(Capture& capture, PyObject* container, PyObject* items);

}  // namespace firesteel::capture
