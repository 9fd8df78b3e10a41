# shellcheck shell=sh disable=SC2034
# What has to be installed, and installing it; sourced by ./dev, which sets $setup ("skip": nothing is looked for).
#
# Known systems: Debian 12 and 13, Ubuntu 24.04. Elsewhere the lists below are printed and nothing is touched.
packages_build='build-essential ccache cmake libdnnl-dev libgomp1 libopenblas0-pthread libsimdjson-dev libtomlplusplus-dev libxxhash-dev
  libzstd-dev lld-19 llvm-19-dev ninja-build pkg-config zlib1g-dev'
packages_test='clang-19 clang-format-19 libclang-rt-19-dev libcmocka-dev libfftw3-dev llvm-19-tools pocl-opencl-icd python3 valgrind'
# A browser for ci/report.py; Ubuntu has none as a package, and the check of the page goes without.
packages_test_debian='chromium-headless-shell'

# The packages among "$@" that are not installed.
packages_missing() {
  for package in "$@"; do
    case " $packages_here " in
    *" $package "*) ;;
    *) printf '%s ' "$package" ;;
    esac
  done
}

packages_query() {
  # shellcheck disable=SC2016 # dpkg-query expands these
  packages_here=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' | sort -u | tr '\n' ' ') || true
}

# `packages_need GROUP…`: GROUP is build or test. Quick when all is there.
packages_need() {
  packages_want=
  for group in "$@"; do
    case $group in
    build) packages_want="$packages_want $packages_build" ;;
    test) packages_want="$packages_want $packages_test" ;;
    esac
  done
  if [ "${setup:-}" = skip ]; then return 0; fi
  packages_system=$(. /etc/os-release 2>/dev/null && echo "${ID:-}-${VERSION_ID:-}") || packages_system=
  case $packages_system in
  debian-12 | debian-13)
    case " $* " in *' test '*) packages_want="$packages_want $packages_test_debian" ;; esac
    ;;
  ubuntu-24.04) ;;
  *)
    cat >&2 <<END
This system (${packages_system:-unknown}) is not one that set-up knows: Debian 12, Debian 13, Ubuntu 24.04.
Please install what these Debian packages hold, then run again with TC_SETUP=skip:
$(for package in $packages_want; do echo "  $package"; done)
END
    return 2
    ;;
  esac
  # shellcheck disable=SC2086 # lists of words
  packages_query $packages_want
  # shellcheck disable=SC2086
  packages_absent=$(packages_missing $packages_want)
  if [ -z "$packages_absent" ]; then return 0; fi
  echo "Installing: $packages_absent"
  packages_sudo=
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Not root, and there is no sudo. Please run as root: apt-get install $packages_absent" >&2
      return 2
    fi
    packages_sudo=sudo
  fi
  # Package lists may be absent or old: then they are fetched, and installing is tried again.
  # shellcheck disable=SC2086
  packages_install $packages_absent || {
    $packages_sudo apt-get -q -o DPkg::Lock::Timeout=600 update && packages_install $packages_absent
  } || {
    echo "Could not install: $packages_absent" >&2
    return 2
  }
}

packages_install() {
  $packages_sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600 install \
    --no-install-recommends "$@"
}
