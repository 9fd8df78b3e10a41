# tc_code_version(TARGET PATTERNS…): code_version.h for the target, which defines TC_CODE_VERSION as the hash of the files that
# the patterns match and of the SDK's headers. Part of the key of what is kept on disk, so that code of another tree's
# generator is made anew.
function(tc_code_version target)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/sdk/include/tc/*.h)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/code_version.h)
  set(script ${PROJECT_SOURCE_DIR}/cmake/hash_files.cmake)
  add_custom_command(OUTPUT ${header} COMMAND ${CMAKE_COMMAND} -P ${script} ${header} ${files} DEPENDS ${script} ${files} VERBATIM)
  target_sources(${target} PRIVATE ${header})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
