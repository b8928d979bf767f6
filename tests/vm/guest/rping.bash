# shellcheck shell=bash
# Steps of jobs that have siw at the other end, of which each failure counts.

failed=0
step() {
    echo "== $*"
    "$@" || failed=$((failed + 1))
}

# rdma-core's rping, which checks what comes back.
with_rping() {
    local rping
    if [ "$1" = server ]; then
        env RPCRDMA_RPING=server RPCRDMA_DEVICE=iwarp ./rping_peer with_the_program &
        sleep 1
        rping -c -a "$RPCRDMA_ADDRESS" -C 20 -S 30000 -V -v | tail -c 200 && wait $!
        return
    fi
    rping -s -a "$RPCRDMA_ADDRESS" -C 20 -S 40000 -V &
    rping=$!
    sleep 1
    env RPCRDMA_RPING=client RPCRDMA_DEVICE=iwarp ./rping_peer with_the_program
    local status=$?
    wait $rping
    return $status
}
