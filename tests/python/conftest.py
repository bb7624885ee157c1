"""For all tests of this folder."""

import signal

# Started in the background by a shell, Python would ignore the interrupts that some tests send themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
