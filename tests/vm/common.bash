# shellcheck shell=bash
# Shared by the scripts of this folder.

# shellcheck source=../packages.bash
. "$here/../packages.bash"
# shellcheck source=../features.bash
. "$here/../features.bash"

# $1: a folder, which is packed into the archive $2. It is not compressed, because an emulated
# machine would take longer.
pack() {
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z | cpio --quiet -0 -o -H newc -R 0:0) >"$2"
}
