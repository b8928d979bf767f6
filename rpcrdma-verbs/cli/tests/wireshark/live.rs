//! Captures of packets on this host's interfaces, by dumpcap.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The packet after which a capture ends.
const END: &[u8] = b"the end of the capture";

/// The maximum time until dumpcap has written a packet, on a host under load.
const DEADLINE: Duration = Duration::from_secs(120);

/// A capture of the packets of one port.
pub(crate) struct Capture {
    dumpcap: Child,
    /// Open, because dumpcap writes to it.
    _messages: BufReader<ChildStderr>,
    file: PathBuf,
    address: SocketAddr,
}

impl Capture {
    /// Starts a capture of the packets of a port that is free, with dumpcap's options for the
    /// interface and the format. Returns the reason if this host does not permit it.
    pub(crate) fn start(file: &Path, address: IpAddr, options: &[&str]) -> Result<Self, String> {
        let address = free_port(address).ok_or_else(|| format!("{address} has no free port"))?;
        let filter = format!("port {}", address.port());
        let dumpcap = Command::new("dumpcap")
            .args(["-q", "-B", "32", "-f", &filter, "-w"])
            .arg(file)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut dumpcap = dumpcap.map_err(|_| "there is no dumpcap".to_owned())?;
        let mut messages = BufReader::new(dumpcap.stderr.take().unwrap());
        let mut text = String::new();
        // dumpcap names the file once it captures.
        while !text.lines().any(|line| line.starts_with("File:")) {
            if messages.read_line(&mut text).unwrap() == 0 {
                dumpcap.wait().unwrap();
                return Err(format!("dumpcap: {}", text.lines().next().unwrap_or("")));
            }
        }
        Ok(Self {
            dumpcap,
            _messages: messages,
            file: file.to_owned(),
            address,
        })
    }

    /// Returns the address whose port is captured. Nothing listens there.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the capture after all packets until now are in the file.
    pub(crate) fn finish(mut self) {
        let socket = UdpSocket::bind((self.address.ip(), 0)).unwrap();
        let began = Instant::now();
        while !self.has_end() {
            assert!(began.elapsed() < DEADLINE, "dumpcap writes the last packet");
            // A refusal by the port, which nobody has opened, may be the result of the call.
            let _ = socket.send_to(END, self.address);
            thread::sleep(Duration::from_millis(50));
        }
        let pid = self.dumpcap.id().to_string();
        // dumpcap completes the file.
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        self.dumpcap.wait().unwrap();
    }

    fn has_end(&self) -> bool {
        let bytes = std::fs::read(&self.file).unwrap_or_default();
        bytes.windows(END.len()).any(|part| part == END)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.dumpcap.kill();
        let _ = self.dumpcap.wait();
    }
}

/// Returns a port that nothing uses, outside of the range from which Linux chooses ports.
fn free_port(address: IpAddr) -> Option<SocketAddr> {
    let random = RandomState::new();
    (0..100).find_map(|attempt| {
        let port = 21_000 + u16::try_from(random.hash_one(attempt) % 10_000).unwrap();
        let listener = TcpListener::bind((address, port)).ok()?;
        listener.local_addr().ok()
    })
}
