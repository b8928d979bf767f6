# shellcheck shell=bash
# What is built beside the default features, in one selection for each purpose, so that cargo builds
# each crate once.
features=rpcrdma-cli/ibverbs,rpcrdma-nfs/ibverbs,rpcrdma-nfs/nfs4,rpcrdma-verbs/tokio,rpcrdma-transport-tests/ibverbs

# The packages of optimised test programs: for the simulator, the soak test and the virtual machines.
optimised=(
    -p rpcrdma-proto -p rpcrdma-verbs -p rpcrdma-transport-tests -p rpcrdma-nfs -p rpcrdma-cli
    --features "$features"
)

# The packages of Debian that building rdma-core needs.
for_ibverbs=(cmake make g++ python3 libclang-dev pkg-config libibverbs-dev librdmacm-dev libnl-3-dev libnl-route-3-dev)

# For the build script of ibverbs-sys, which needs no more of rdma-core than its headers.
CMAKE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/cmake")
export CMAKE
