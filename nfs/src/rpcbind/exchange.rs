//! One blocking call to rpcbind, on its own connection.
//!
//! `rpcrdma nfs serve` registers after its server has started, and removes the entries before the
//! server drains. The fallback to lower versions in `rpcbind` relies on `CallFailure::Unsupported`
//! for PROG_MISMATCH and PROC_UNAVAIL alone. A reply is untrusted: its length, fragments and XID
//! are checked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use oncrpc::protocol::{
    AcceptedReplyData, CallBody, OpaqueAuth, RPC_VERSION, ReplyBody, RpcMsg, RpcMsgBody,
};
use oncrpc::xdr::{Decode, Encode};

use super::{PROGRAM, RpcbindAddress};

/// The timeout of each step of a call. Connecting to the Unix socket has none.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum bytes of a reply.
const MAX_REPLY: usize = 4096;
/// The bit in the record mark of the last fragment (RFC 5531, section 11).
const LAST: u32 = 1 << 31;
/// Each connection carries one call.
const XID: u32 = 1;

/// The reason why a call has no result.
#[derive(Debug)]
pub(super) enum CallFailure {
    Io(io::Error),
    /// The version of the program, or the procedure, is not supported.
    Unsupported,
    Malformed,
    Rejected,
}

impl From<io::Error> for CallFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A procedure of RPCBIND.
#[derive(Clone, Copy, Debug)]
pub(super) struct Procedure {
    pub(super) version: u32,
    pub(super) number: u32,
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn connect(address: &RpcbindAddress) -> io::Result<Box<dyn Stream>> {
    match address {
        #[cfg(unix)]
        RpcbindAddress::Socket(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(Box::new(stream))
        }
        #[cfg(not(unix))]
        RpcbindAddress::Socket(_) => Err(io::ErrorKind::Unsupported.into()),
        RpcbindAddress::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(Box::new(stream))
        }
    }
}

/// Connects to the first address that accepts a connection. Returns the error of the last one.
fn connect_any(addresses: &[RpcbindAddress]) -> io::Result<Box<dyn Stream>> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in addresses {
        match connect(address) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads a record, which may have several fragments.
fn read_record(stream: &mut dyn Stream) -> Result<Vec<u8>, CallFailure> {
    let mut record = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let len = usize::try_from(mark & !LAST).map_err(|_| CallFailure::Malformed)?;
        // Without this check, empty fragments would let a peer continue forever.
        if len > MAX_REPLY - record.len() || (len == 0 && mark & LAST == 0) {
            return Err(CallFailure::Malformed);
        }
        let start = record.len();
        record.resize(start + len, 0);
        stream.read_exact(record.get_mut(start..).unwrap_or_default())?;
        if mark & LAST != 0 {
            return Ok(record);
        }
    }
}

fn encoded(value: &impl Encode) -> Result<Vec<u8>, CallFailure> {
    value.encode_to_vec().map_err(|_| CallFailure::Malformed)
}

/// Returns a record with a call.
fn record(procedure: Procedure, arguments: &impl Encode) -> Result<Vec<u8>, CallFailure> {
    let none = OpaqueAuth {
        flavor: 0,
        body: Default::default(),
    };
    let header = RpcMsg {
        xid: XID,
        body: RpcMsgBody::Call(CallBody {
            rpcvers: RPC_VERSION,
            prog: PROGRAM,
            vers: procedure.version,
            proc: procedure.number,
            cred: none,
            verf: none,
        }),
    };
    let message = [encoded(&header)?, encoded(arguments)?].concat();
    let len = u32::try_from(message.len()).map_err(|_| CallFailure::Malformed)?;
    Ok([&(len | LAST).to_be_bytes()[..], &message].concat())
}

/// Returns the result in a reply.
fn result<R: for<'a> Decode<'a>>(reply: &[u8]) -> Result<R, CallFailure> {
    let (header, rest) = RpcMsg::from_prefix(reply).map_err(|_| CallFailure::Malformed)?;
    if header.xid != XID {
        return Err(CallFailure::Malformed);
    }
    match header.body {
        RpcMsgBody::Reply(ReplyBody::Accepted(accepted)) => match accepted.reply_data {
            AcceptedReplyData::Success => R::from_bytes(rest).map_err(|_| CallFailure::Malformed),
            AcceptedReplyData::ProgMismatch(_) | AcceptedReplyData::ProcUnavail => {
                Err(CallFailure::Unsupported)
            }
            _ => Err(CallFailure::Rejected),
        },
        RpcMsgBody::Reply(ReplyBody::Denied(_)) => Err(CallFailure::Rejected),
        RpcMsgBody::Call(_) => Err(CallFailure::Malformed),
    }
}

/// Calls a procedure, and waits for its result.
pub(super) fn call<R: for<'a> Decode<'a>>(
    addresses: &[RpcbindAddress],
    procedure: Procedure,
    arguments: &impl Encode,
) -> Result<R, CallFailure> {
    let record = record(procedure, arguments)?;
    let mut stream = connect_any(addresses)?;
    stream.write_all(&record)?;
    stream.flush()?;
    result(&read_record(&mut *stream)?)
}
