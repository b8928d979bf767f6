# shellcheck shell=bash
# What the scripts of this folder share.

# shellcheck source=../packages.bash
. "$here/../packages.bash"

# $1: a folder, packed into the archive $2. Not compressed: an emulated machine would take longer for it.
pack() {
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z | cpio --quiet -0 -o -H newc -R 0:0) >"$2"
}
