//! The usual reasons for errors of verbs, with remedies. All errors of the system in this provider
//! are made by `explained`. A hint matches the name of the verb that `sys` passes, and the errno: a
//! verb that is renamed there loses its hints. Errors without a hint stay `Cause::System`, on which
//! the recognition of an address in use relies (`sys::connections`).

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::provider::{Cause, VerbError};

/// Returns the error of a verb, with a hint if there is one.
pub(super) fn explained(verb: &'static str, error: io::Error) -> VerbError {
    let known = Errno::from_io_error(&error).and_then(|errno| hint(verb, errno));
    let cause = match known {
        Some(hint) => Cause::Hinted(error, hint.into()),
        None => Cause::System(error),
    };
    VerbError { verb, cause }
}

fn hint(verb: &str, errno: Errno) -> Option<String> {
    let text = match (verb, errno) {
        ("ibv_reg_mr" | "ibv_create_cq" | "ibv_create_qp" | "ibv_create_srq", Errno::NOMEM) => {
            return Some(memory());
        }
        (_, Errno::ACCESS | Errno::PERM) => {
            "no permission: /dev/infiniband/uverbs* and /dev/infiniband/rdma_cm must be \
             readable and writable"
        }
        // The error that libibverbs returns for any cause.
        ("ibv_open_device", Errno::NOENT) => {
            "/dev/infiniband/uverbs* does not exist (the kernel's module ib_uverbs), or cannot \
             be read and written by this user"
        }
        ("ibv_create_qp" | "ibv_create_cq" | "ibv_create_srq", Errno::INVAL) => {
            "more requests, receives or completions than the device supports: `rpcrdma devices` \
             lists its limits"
        }
        ("rdma_create_event_channel", Errno::NODEV | Errno::NOENT | Errno::NXIO) => {
            "there is no RDMA device, or the kernel's module rdma_ucm is not loaded"
        }
        ("rdma_bind_addr", Errno::ADDRNOTAVAIL | Errno::NODEV | Errno::NXIO) => {
            "the address belongs to no network interface with an RDMA device"
        }
        (
            "rdma_resolve_addr",
            Errno::NODEV | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL,
        ) => "no route to the address goes through a network interface with an RDMA device",
        ("rdma_resolve_addr" | "rdma_resolve_route", Errno::TIMEDOUT) => {
            "no host answers for the address: is the host up, in this network, and its port active?"
        }
        ("rdma_connect", Errno::TIMEDOUT) => {
            "the host does not answer: a firewall may stop RoCE (UDP port 4791) or iWARP (TCP)"
        }
        ("rdma_connect", Errno::CONNREFUSED) => "nothing listens at the address",
        (
            "ibv_modify_qp",
            Errno::INVAL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::TIMEDOUT,
        ) => {
            "the path does not fit the device: its table of GIDs may lack the address, or contain \
             it for another version of RoCE"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Returns the usual reason why memory cannot be registered.
fn memory() -> String {
    match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!(
            "registered memory is locked, and this process may lock {} KiB: raise \
            the limit (ulimit -l, \
             LimitMEMLOCK= of a service)",
            bytes / 1024
        ),
        None => "there is not enough memory to lock, or the device cannot register more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(verb: &'static str, errno: Errno) -> String {
        explained(verb, errno.into()).to_string()
    }

    #[test]
    fn usual_causes_have_a_hint() {
        assert!(says("ibv_reg_mr", Errno::NOMEM).contains("lock"));
        assert!(says("ibv_open_device", Errno::ACCESS).contains("/dev/infiniband"));
        assert!(says("ibv_open_device", Errno::NOENT).contains("by this user"));
        assert!(says("rdma_create_event_channel", Errno::NODEV).contains("rdma_ucm"));
        assert!(says("rdma_resolve_addr", Errno::NODEV).contains("network interface"));
        assert!(says("ibv_modify_qp", Errno::INVAL).contains("GID"));
    }

    #[test]
    fn other_causes_have_no_hint() {
        assert_eq!(
            says("ibv_alloc_mw", Errno::NOMEM),
            "ibv_alloc_mw: Cannot allocate memory (os error 12)"
        );
    }
}
