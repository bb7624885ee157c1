# The torch target, found through the Python that has it, and the refusal of versions nobody has tried.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)

if(NOT Torch_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE TORCH_MISSING ERROR_QUIET)
  if(TORCH_MISSING)
    message(FATAL_ERROR "torch is not installed for ${Python_EXECUTABLE}: pip install torch==2.13.0")
  endif()
endif()

if(Torch_DIR)
  get_filename_component(TORCH_ROOT ${Torch_DIR}/../../.. ABSOLUTE)
endif()

file(STRINGS ${TORCH_ROOT}/include/torch/headeronly/version.h TORCH_VERSION_LINE REGEX "#define TORCH_VERSION \"")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_FOUND_VERSION "${TORCH_VERSION_LINE}")
if(NOT TORCH_FOUND_VERSION MATCHES "^2\\.(11|13)\\.")
  message(FATAL_ERROR "Firesteel supports torch 2.13 (and builds on 2.11); found '${TORCH_FOUND_VERSION}' in ${TORCH_ROOT}")
endif()

# Plain imported libraries: TorchConfig.cmake would look for CUDA toolkits that a build of libfiresteel does not need.
add_library(firesteel_torch INTERFACE)
target_include_directories(firesteel_torch SYSTEM INTERFACE ${TORCH_ROOT}/include ${TORCH_ROOT}/include/torch/csrc/api/include)
target_link_directories(firesteel_torch INTERFACE ${TORCH_ROOT}/lib)
target_link_libraries(firesteel_torch INTERFACE torch torch_cpu c10)
target_compile_definitions(firesteel_torch INTERFACE FMT_HEADER_ONLY=1)
set(FIRESTEEL_TORCH_LIB_DIR ${TORCH_ROOT}/lib)
