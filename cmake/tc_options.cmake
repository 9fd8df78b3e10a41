# Compiler settings and the libraries that every target shares.
option(TC_TESTS "Build the tests" ON)
option(TC_PLUGINS "Build the plugins in plugins/" ON)
option(TC_WERROR "Treat warnings as errors" OFF)
option(TC_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(TC_SANITIZE "" CACHE STRING "Sanitizers for all targets: address,undefined or thread")

set(CMAKE_C_STANDARD 17)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(tc_flags INTERFACE)
target_include_directories(tc_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/sdk/include)
target_compile_definitions(tc_flags INTERFACE _GNU_SOURCE)
# Floating point means what it says: no contraction, so that references and folded constants are the same everywhere.
target_compile_options(tc_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -fno-exceptions -fno-rtti>)
# What is linked into a library and not reached from what it exports is left out.
target_compile_options(tc_flags INTERFACE -ffunction-sections -fdata-sections)
# gcc cannot see that an error skips the code behind it, and warns of values that only success sets. clang can.
target_compile_options(tc_flags INTERFACE $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-maybe-uninitialized>)
if(TC_WERROR)
  target_compile_options(tc_flags INTERFACE -Werror)
endif()
if(TC_SANITIZE)
  add_compile_options(-fsanitize=${TC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TC_SANITIZE})
endif()

# The compiler cache sees paths relative to the source folder, so that another clone finds what this one compiled.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

find_package(Threads REQUIRED)
if(NOT TC_SANITIZE MATCHES "thread") # which does not see the barriers of OpenMP's team
  find_package(OpenMP COMPONENTS C)
endif()
if(NOT OpenMP_C_FOUND) # core/base/executor.c then has its own threads
  add_library(OpenMP::OpenMP_C INTERFACE IMPORTED)
endif()
find_package(ZLIB REQUIRED)

# Header or library dependencies, each behind one target; all come from the system's packages (./dev lists them).
function(tc_system_library target header library)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  if(library)
    find_library(${target}_LIBRARY ${library} REQUIRED)
    target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  endif()
endfunction()
tc_system_library(tc_simdjson simdjson.h simdjson)
tc_system_library(tc_tomlplusplus toml++/toml.h "")
tc_system_library(tc_xxhash xxhash.h xxhash)
