#!/bin/sh
# Run steropes with the kernels that were compiled when the image was built.
#
# Numba reads its cache only from a folder that it can write to, and the code in it is executed, so that
# nobody else may write to it: each container gets a private copy in its temporary directory.
set -eu
kernels="${STEROPES_KERNELS:-/opt/kernels}"
if [ -z "${NUMBA_CACHE_DIR:-}" ] && copy=$(mktemp -d "${TMPDIR:-/tmp}/kernels.XXXXXX" 2>/dev/null); then
    cp -R "$kernels/." "$copy" && export NUMBA_CACHE_DIR="$copy"
fi
exec steropes "$@"
