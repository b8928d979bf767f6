//! Notifies a service manager by the protocol of sd_notify(3).

use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
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

/// Returns the address of a socket: a path, or on Linux also an abstract name behind `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(socket),
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    let sent = sender.send_to_addr(state.as_bytes(), &address(socket)?);
    sent.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_reaches(socket: &OsStr, receiver: &UnixDatagram) {
        send(socket, "READY=1").unwrap();
        let mut text = [0; 16];
        let length = receiver.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"READY=1");
    }

    #[test]
    fn states_reach_a_socket_with_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let receiver = UnixDatagram::bind(&path).unwrap();
        assert_reaches(path.as_os_str(), &receiver);
        assert!(send(folder.path().join("none").as_os_str(), "READY=1").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn states_reach_a_socket_with_an_abstract_name() {
        let name = format!("@rpcrdma-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        assert_reaches(OsStr::new(&name), &receiver);
    }
}
