# The imported target Firesteel::torch, and the refusal of torch versions nobody has tried.
# Used by the build and, installed, by FiresteelConfig.cmake: it must not assume Firesteel's own source tree.
#
# TorchConfig.cmake is not called: for a CUDA build of torch it demands a CUDA toolkit, which Firesteel does not need.
set(FIRESTEEL_SUPPORTED_TORCH "^2\\.(11|13)\\.")

function(firesteel_torch_version root result)
  # torch 2.13 keeps its version macros in headeronly; others keep them in the C++ front end's header.
  foreach(header headeronly/version.h csrc/api/include/torch/version.h version.h)
    if(EXISTS ${root}/include/torch/${header})
      file(STRINGS ${root}/include/torch/${header} lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      list(LENGTH numbers count)
      if(count EQUAL 3)
        list(JOIN numbers "." version)
        set(${result} ${version} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  set(${result} "unknown" PARENT_SCOPE)
endfunction()

# Where torch is: what find_package(Torch) found or is told, a prefix on the search path, a hint (the wheel lies beside
# torch), and last the Python that has it.
function(firesteel_find_torch result)
  set(candidates ${TORCH_INSTALL_PREFIX})
  if(Torch_DIR)
    list(APPEND candidates ${Torch_DIR}/../../..)
  endif()
  list(APPEND candidates ${CMAKE_PREFIX_PATH} ${FIRESTEEL_TORCH_HINT})
  foreach(root ${candidates})
    if(EXISTS ${root}/share/cmake/Torch/TorchConfig.cmake AND EXISTS ${root}/lib/libtorch_cpu.so)
      get_filename_component(root ${root} REALPATH)
      set(${result} ${root} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(NOT Python_EXECUTABLE)
    find_package(Python 3.11 COMPONENTS Interpreter QUIET)
  endif()
  if(Python_EXECUTABLE)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing ERROR_QUIET)
    if(missing EQUAL 0)
      set(${result} ${root} PARENT_SCOPE)
      return()
    endif()
  endif()
  message(FATAL_ERROR "Firesteel needs torch 2.13 and found none.\n"
    "  Asked: find_package(Torch), CMAKE_PREFIX_PATH, and the Python '${Python_EXECUTABLE}'.\n"
    "  Try: pip install torch==2.13.0 and pass -DPython_EXECUTABLE=<that python>, or pass -DTorch_DIR=<torch>/share/cmake/Torch.")
endfunction()

firesteel_find_torch(FIRESTEEL_TORCH_ROOT)
firesteel_torch_version(${FIRESTEEL_TORCH_ROOT} FIRESTEEL_TORCH_VERSION)
if(NOT FIRESTEEL_TORCH_VERSION MATCHES "${FIRESTEEL_SUPPORTED_TORCH}")
  message(FATAL_ERROR "Firesteel supports torch 2.13 (and builds on 2.11); "
    "found torch ${FIRESTEEL_TORCH_VERSION} in ${FIRESTEEL_TORCH_ROOT}.\n  Try: pip install torch==2.13.0")
endif()

if(NOT TARGET Firesteel::torch)
  add_library(Firesteel::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(Firesteel::torch SYSTEM INTERFACE
    ${FIRESTEEL_TORCH_ROOT}/include ${FIRESTEEL_TORCH_ROOT}/include/torch/csrc/api/include)
  # libtorch holds no code: it is what brings the kernels of a CUDA build along, so it must not be dropped as unneeded.
  target_link_libraries(Firesteel::torch INTERFACE
    "-Wl,--push-state,--no-as-needed,${FIRESTEEL_TORCH_ROOT}/lib/libtorch.so,--pop-state"
    ${FIRESTEEL_TORCH_ROOT}/lib/libtorch_cpu.so ${FIRESTEEL_TORCH_ROOT}/lib/libc10.so)
endif()
