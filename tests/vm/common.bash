# shellcheck shell=bash
# What the scripts of this folder share.

# Installs those of Debian's packages that are missing.
need() {
    local missing=() package log
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} != 0 ] || return 0
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    rm -f "$log"
}

# $1: a folder, packed into the archive $2. Not compressed: an emulated machine would take longer for it.
pack() {
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z | cpio --quiet -0 -o -H newc -R 0:0) >"$2"
}
