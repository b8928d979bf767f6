# shellcheck shell=bash
# The suite: what is built for it, the jobs that the guest runs, and what became of them.

# Names of scripts in guest/jobs, and how many seconds each may take.
jobs=(
    "conformance 180"
    "transport 120"
    "groups 120"
    "demo 60"
    "windows 60"
    "cuts 120"
    "bench 180"
    "load 240"
    "nfs 60"
    "linux 120"
)

# Builds the tests and the command into the folder $1, under their names.
build() {
    local file name
    need cmake g++ libclang-dev libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev
    mkdir -p "$1"
    built test -p rpcrdma-verbs --features ibverbs,tokio --no-run >"$work/built"
    built build -p rpcrdma-cli --features ibverbs >>"$work/built"
    while read -r file; do
        name=$(basename "$file")
        ln -sf "$file" "$1/${name%-????????????????}"
    done <"$work/built"
}

# Which programs cargo makes; examples are of no use here.
built() {
    (cd "$here/../.." && cargo "$1" -q --release "${@:2}" --message-format=json-render-diagnostics) \
        | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | { grep -v /examples/ || true; }
}

# Runs the suite in one set-up; adds to passed and failed.
suite() {
    local folder=$work/$1 name sums start=$SECONDS limit=60
    prepare "$1"
    for name in "${jobs[@]}"; do
        limit=$((limit + ${name##* } + 30))
    done
    settings "$folder/guest" run_job "$(printf '%s\n' "${jobs[@]}")"
    add_files "$folder/guest" "$work"/tests/*
    echo "==== $setup: Linux $(cat "$kernel/version")"
    boot "$folder" "$limit" || true
    ended "$folder" || true
    read -ra sums < <(sum "$folder/report")
    echo "==== $setup: ${sums[0]} passed, ${sums[1]} failed ($((SECONDS - start)) s)"
    passed=$((passed + sums[0]))
    failed=$((failed + sums[1]))
}

# Sums of a report. A job without a line in it did not end, and failed.
sum() {
    printf '%s\n' "${jobs[@]}" | awk '
        NR == FNR { if ($1 == "job") { done[$2] = 1; passed += $3; failed += $4 }; next }
        !($1 in done) { failed++ }
        END { print passed + 0, failed + 0 }' "$1" -
}
