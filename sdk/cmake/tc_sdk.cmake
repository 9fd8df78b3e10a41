# What find_package(tc_sdk) gives to who builds plugins, from the installed SDK alone (share/tc/sdk):
#   tc::sdk_headers                the interface
#   tc::sdk                        the helpers and the dispatch of tc_k_*, tc_op_* …, built with the plugin's own flags
#   tc_add_plugin(NAME SOURCES … [MANIFEST FILE] [LIBS …])   lib<NAME>.so and its manifest in the build folder, exporting
#                                  tc_plugin_query alone, writable by nobody but the owner, as the loader wants it
get_filename_component(TC_SDK "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT TARGET tc_sdk_all)
  get_property(tc_sdk_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT C IN_LIST tc_sdk_languages)
    enable_language(C) # of the helpers, also in a project that is C++ alone
  endif()
  add_library(tc_sdk_headers_only INTERFACE)
  target_include_directories(tc_sdk_headers_only INTERFACE ${TC_SDK}/include)
  add_library(tc::sdk_headers ALIAS tc_sdk_headers_only)
  file(GLOB sources ${TC_SDK}/src/*.c)
  add_library(tc_sdk_all STATIC EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(tc_sdk_all PUBLIC tc_sdk_headers_only)
  target_compile_options(tc_sdk_all PRIVATE -ffp-contract=off)
  set_target_properties(tc_sdk_all PROPERTIES POSITION_INDEPENDENT_CODE ON C_STANDARD 17 C_VISIBILITY_PRESET hidden)
  add_library(tc::sdk ALIAS tc_sdk_all)
endif()

function(tc_add_plugin name)
  cmake_parse_arguments(P "" "MANIFEST" "SOURCES;LIBS" ${ARGN})
  add_library(${name} MODULE ${P_SOURCES})
  target_link_libraries(${name} PRIVATE tc::sdk ${P_LIBS})
  target_link_options(${name} PRIVATE -Wl,--version-script=${TC_SDK}/abi/plugin.map -Wl,--exclude-libs,ALL)
  set_target_properties(${name} PROPERTIES PREFIX lib SUFFIX .so C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)
  add_custom_command(TARGET ${name} POST_BUILD COMMAND chmod go-w $<TARGET_FILE:${name}> $<TARGET_FILE_DIR:${name}>)
  if(P_MANIFEST)
    get_filename_component(manifest ${P_MANIFEST} NAME)
    configure_file(${P_MANIFEST} ${CMAKE_CURRENT_BINARY_DIR}/${manifest} COPYONLY FILE_PERMISSIONS OWNER_READ OWNER_WRITE
                                                                                      GROUP_READ WORLD_READ)
  endif()
endfunction()
