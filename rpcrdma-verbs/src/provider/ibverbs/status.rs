//! Conversion of completion statuses, for `device_state` and `probe`. Only `IBV_WC_SUCCESS` may
//! become a success, since callers use the data of a success.

use ibverbs_sys::ibv_wc_status::{self as wc, Type};

use crate::provider::Status;

/// Converts a status of libibverbs. A status without an equivalent is converted to the nearest one,
/// and is logged.
pub(super) fn status(status: Type, vendor: u32) -> Status {
    match status {
        wc::IBV_WC_SUCCESS => Status::Success,
        wc::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        wc::IBV_WC_LOC_LEN_ERR => Status::LocalLength,
        wc::IBV_WC_LOC_PROT_ERR | wc::IBV_WC_LOC_ACCESS_ERR => Status::LocalProtection,
        wc::IBV_WC_REM_ACCESS_ERR => Status::RemoteAccess,
        wc::IBV_WC_REM_INV_REQ_ERR => Status::RemoteInvalidRequest,
        wc::IBV_WC_RNR_RETRY_EXC_ERR => Status::ReceiverNotReady,
        wc::IBV_WC_MW_BIND_ERR => Status::Bind,
        wc::IBV_WC_RETRY_EXC_ERR => Status::Retry,
        other => {
            tracing::debug!(
                status = other,
                vendor,
                "a completion with an unusual status"
            );
            nearest(other)
        }
    }
}

fn nearest(status: Type) -> Status {
    match status {
        wc::IBV_WC_LOC_QP_OP_ERR | wc::IBV_WC_LOC_EEC_OP_ERR => Status::LocalProtection,
        wc::IBV_WC_REM_OP_ERR | wc::IBV_WC_REM_INV_RD_REQ_ERR | wc::IBV_WC_REM_ABORT_ERR => {
            Status::RemoteInvalidRequest
        }
        _ => Status::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_succeeds() {
        for code in 0..64 {
            assert_eq!(
                status(code, 0) == Status::Success,
                code == wc::IBV_WC_SUCCESS,
                "{code}"
            );
        }
    }

    #[test]
    fn statuses_have_their_names() {
        assert_eq!(
            status(wc::IBV_WC_RNR_RETRY_EXC_ERR, 0),
            Status::ReceiverNotReady
        );
        assert_eq!(
            status(wc::IBV_WC_LOC_ACCESS_ERR, 0),
            Status::LocalProtection
        );
        assert_eq!(status(wc::IBV_WC_FATAL_ERR, 7), Status::Retry);
    }
}
