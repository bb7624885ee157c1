"""The version of Firesteel. CMake and the wheel read it from here; it is written nowhere else."""

__version__ = "0.1.0"
