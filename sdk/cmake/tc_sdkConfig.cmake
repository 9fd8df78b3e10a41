# find_package(tc_sdk): everything is in the installed SDK; see tc_sdk.cmake there.
include("${CMAKE_CURRENT_LIST_DIR}/../../../share/tc/sdk/cmake/tc_sdk.cmake")
