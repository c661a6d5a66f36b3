#!/usr/bin/env bash
# Installs the programs that some tests run beside Python, where that needs no question: as root, on
# a system with apt-get. Elsewhere it names what is missing; the tests that need it are skipped.
set -euo pipefail

declare -A package=(
    [cc]=gcc
    [c++]=g++
    [valgrind]=valgrind
    [qemu-aarch64]=qemu-user
    [qemu-x86_64]=qemu-user
    [aarch64-linux-gnu-gcc]=gcc-aarch64-linux-gnu
    [chromium]=chromium
    [mpiexec.openmpi]=openmpi-bin
    [mpiexec.mpich]=mpich
)

missing=()
packages=()
for program in "${!package[@]}"; do
    if ! command -v "$program" > /dev/null; then
        missing+=("$program")
        packages+=("${package[$program]}")
    fi
done
# Exports that call LAPACK are linked with the system's.
if ! cc -x c - -llapack -o /dev/null 2> /dev/null <<< 'int main(void) { return 0; }'; then
    missing+=(liblapack)
    packages+=(liblapack-dev)
fi
# Exports with collectives are built by the mpicc of each library of MPI.
for library in openmpi mpich; do
    if ! "mpicc.$library" -x c -fsyntax-only - 2> /dev/null <<< '#include <mpi.h>'; then
        missing+=("mpicc.$library")
        packages+=("lib$library-dev")
    fi
done
if ((${#missing[@]} == 0)); then
    exit 0
fi

# The C library to link against comes with the compiler for this machine only.
if [[ " ${missing[*]} " == *" aarch64-linux-gnu-gcc "* ]]; then
    packages+=(libc6-dev-arm64-cross)
fi

if [[ $(id -u) == 0 ]] && command -v apt-get > /dev/null; then
    echo "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if apt-get -qq update \
        && apt-get -qq install --yes --no-install-recommends "${packages[@]}" > /dev/null; then
        exit 0
    fi
fi
echo "not installed: ${missing[*]}; the tests that need them are skipped" >&2
