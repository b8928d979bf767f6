//! Notifies a service manager by the protocol of sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state, such as `READY=1`, to the service manager, if there is one that listens.
pub(super) fn notify(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, state)
    {
        tracing::warn!(%error, state, "can't notify the service manager");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_reach_abstract_and_path_sockets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let of_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("@rpcrdma-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        let of_name = UnixDatagram::bind_addr(&address).unwrap();
        for (socket, receiver) in [(path.as_os_str(), of_path), (OsStr::new(&name), of_name)] {
            send(socket, "READY=1").unwrap();
            let mut text = [0; 16];
            let length = receiver.recv(&mut text).unwrap();
            assert_eq!(&text[..length], b"READY=1");
        }
        assert!(send(folder.path().join("none").as_os_str(), "READY=1").is_err());
    }
}
