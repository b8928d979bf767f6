# shellcheck shell=bash
# Debian's packages, for scripts that may run beside each other.

# Runs apt-get. One waits for the other, and for others' that have dpkg's lock.
apt_get() {
    flock "${TMPDIR:-/tmp}/rpcrdma-apt.lock" apt-get -o DPkg::Lock::Timeout=600 "$@"
}

# Installs those packages that are missing.
need() {
    local package missing=() log
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} != 0 ] || return 0
    log=$(mktemp)
    if ! { apt_get update && DEBIAN_FRONTEND=noninteractive apt_get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    rm -f "$log"
}
