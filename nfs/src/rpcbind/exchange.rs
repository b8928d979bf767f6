//! One blocking call to rpcbind, on its own connection.
//!
//! `rpcrdma nfs serve` registers after its server has started, and removes the entries before the
//! server drains. The fallback to lower versions in `rpcbind` relies on `CallFailure::Unsupported`
//! for PROG_MISMATCH and PROC_UNAVAIL alone. A reply is untrusted: its length, fragments and XID
//! are checked.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::path::Path;
use std::time::Duration;

use oncrpc::protocol::{
    AcceptedReplyData, CallBody, OpaqueAuth, RPC_VERSION, ReplyBody, RpcMsg, RpcMsgBody,
};
use oncrpc::xdr::{Decode, Encode};
#[cfg(unix)]
use socket2::{Domain, SockAddr, Socket, Type};

use super::{PROGRAM, RpcbindAddress};

/// The timeout of each step of a call: to connect, to write, and to read.
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

/// Connects to a Unix socket. Linux waits there while the backlog of the listener is full.
#[cfg(unix)]
fn connect_socket(path: &Path, timeout: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux applies the timeout of writes to `connect`, too (unix(7), socket(7)).
    socket.set_write_timeout(Some(timeout))?;
    socket.set_read_timeout(Some(timeout))?;
    let connected = socket.connect(&SockAddr::unix(path)?);
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    })?;
    Ok(socket)
}

fn connect(address: &RpcbindAddress) -> io::Result<Box<dyn Stream>> {
    match address {
        #[cfg(unix)]
        RpcbindAddress::Socket(path) => Ok(Box::new(connect_socket(path, TIMEOUT)?)),
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn connecting_to_a_socket_that_accepts_nothing_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rpcbind.sock");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        // A backlog of one connection.
        listener.listen(0).unwrap();
        let connect = || connect_socket(&path, Duration::from_millis(20));
        let _first = connect().unwrap();
        let second = connect().map(drop).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::TimedOut);
    }
}
