# shellcheck shell=bash
# Shared by the scripts of this folder: steps, their summary, and Debian packages.

# shellcheck source=../tests/packages.bash
. tests/packages.bash
# shellcheck source=../tests/features.bash
. tests/features.bash

# Without debug information, which takes a fifth of the time of a build: panics tell their line, and
# backtraces their functions, without it.
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=0 CARGO_PROFILE_CI_DEBUG=0

# What `time` prints: the seconds that have passed, and those of processors.
TIMEFORMAT='%R %U %S'

# Runs a command as the step $1. The script ends where one fails.
step() {
    local name=$1
    current=$name
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    unnoted=$logs/step
    # Not on the left of `||`, where Bash would go on after errors in the command.
    { time (set -e && "$@") 2>&1 | tee "$logs/step"; } 2>"$logs/step.time"
    note "$name" "$logs/step"
    unnoted=
    current=
}

# Runs steps beside those that follow, one after another and at a low priority, up to the next
# `join`: each argument is the name of a function.
beside() {
    steps_beside=("$@")
    # A process group of its own.
    set -m
    (
        set +e
        renice -n 19 "$BASHPID" >/dev/null
        for each in "$@"; do
            # As above: not on the left of `||`.
            { time { (set -e && "$each") >"$logs/$each" 2>&1; }; } 2>"$logs/$each.time"
            [ $? = 0 ] || { touch "$logs/$each.failed" && break; }
        done
    ) &
    set +m
    beside=$!
}

# Waits for the steps beside, and prints what they printed. The script ends if one has failed.
join() {
    local each
    current="steps beside"
    wait "$beside"
    beside=
    for each in "${steps_beside[@]}"; do
        current=${each//_/ }
        printf '\n== %s, beside the others\n' "$current"
        cat "$logs/$each"
        note "$current" "$logs/$each"
        [ ! -f "$logs/$each.failed" ] || exit 1
    done
    current=
}

# Ends the steps beside, where the script ends before them.
end_beside() {
    [ -z "${beside-}" ] || kill -- "-$beside" 2>/dev/null || true
}

# Notes the times and the counts of the step $1, whose log is $2.
note() {
    local counts times
    counts=$(counted "$2")
    times=$(tail -1 "$2.time" | awk '{ printf "%5d s %6d s", $1, $2 + $3 }')
    ran+=("$(printf '%s  %-22s %s' "$times" "$1" "$counts")")
    totals+=("$counts")
}

# How many tests a log tells of: its closing line `N passed, N failed`, or else the sum of libtest's
# results.
counted() {
    awk '/^[0-9]+ passed, [0-9]+ failed$/ { closing = $0; next }
        /^test result:/ { passed += $4; failed += $6; closing = "" }
        END { print closing != "" ? closing : passed + 0 " passed, " failed + 0 " failed" }' "$1"
}

# Prints the steps that ended, with their times, the one that failed, and how many tests passed,
# failed and were skipped.
summary() {
    local skipped
    # A step that fails ends the script.
    [ -z "${unnoted-}" ] || note "$current" "$unnoted"
    skipped=$(sort -u "$RPCRDMA_SKIPPED")
    printf '\n== What ran, in %d s: seconds passed, and of processors\n' "$SECONDS"
    printf '%s\n' "${ran[@]}"
    [ -z "${current-}" ] || echo "Failed: $current"
    [ -z "$skipped" ] || printf 'Skipped:\n%s\n' "$skipped"
    printf '%s\n' "${totals[@]}" | awk -v skipped="$(grep -c . <<<"$skipped")" '
        { passed += $1; failed += $3 }
        END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
}

# Notes that something is skipped, and why.
skip() {
    echo "skipped: $1"
    [ -z "${RPCRDMA_SKIPPED-}" ] || echo "$1" >>"$RPCRDMA_SKIPPED"
}
