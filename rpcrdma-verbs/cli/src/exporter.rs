//! Serves the metrics for Prometheus and `rpcrdma stat` by HTTP, on separate threads.
//!
//! The threads serve one request at a time, with a timeout of two seconds, so that HTTP clients use
//! a bounded part of the server's resources.

use std::error::Error;
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::listen_address::ListenAddress;
use crate::server_name::METRICS_PORT;
use crate::timed_stream::TimedStream;

/// The address of the metrics.
#[derive(Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Serve metrics for Prometheus and `rpcrdma stat` by HTTP at this address (default 127.0.0.1,
    /// port 9464). They are readable by everyone who can reach the address.
    #[arg(long, value_name = "ADDR", num_args = 0..=1,
        default_missing_value = "127.0.0.1", require_equals = true)]
    metrics: Option<ListenAddress>,
}

/// The upper bounds of the buckets of all histograms, in seconds.
const BUCKETS: [f64; 19] = [
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0,
    2.0, 5.0, 10.0,
];
/// The timeout of a request, including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum bytes of a request.
const MAX_REQUEST: usize = 8 << 10;
/// The interval at which histogram values are sorted into buckets: they use memory until then.
const UPKEEP: Duration = Duration::from_secs(5);
/// The delay after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

impl Options {
    /// If requested, starts to record and serve metrics, and returns the address. This function
    /// must be called before the first call is made or served. `publish` is called before each
    /// response.
    pub(crate) fn start(
        &self,
        publish: impl Fn() + Send + 'static,
    ) -> Result<Option<SocketAddr>, Box<dyn Error>> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let address = address.or(Ipv4Addr::LOCALHOST, METRICS_PORT);
        let failed = |error: io::Error| format!("--metrics: {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let local = listener.local_addr()?;
        let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?;
        let metrics = recorder.install_recorder()?;
        rpcrdma_verbs::describe_metrics();
        let exporter = Exporter {
            metrics: metrics.clone(),
            publish: Box::new(publish),
        };
        spawn("metrics", move || exporter.run(&listener))?;
        spawn("metrics-upkeep", move || {
            loop {
                std::thread::sleep(UPKEEP);
                metrics.run_upkeep();
            }
        })?;
        Ok(Some(local))
    }
}

/// Starts a thread that runs until the process ends.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map(drop)
}

/// Responds to HTTP requests.
struct Exporter {
    metrics: PrometheusHandle,
    publish: Box<dyn Fn() + Send>,
}

impl Exporter {
    fn run(&self, listener: &TcpListener) {
        loop {
            match listener.accept() {
                // A client that disconnects is not an error of the server.
                Ok((stream, _)) => drop(self.answer(stream)),
                Err(error) => {
                    tracing::warn!(%error, "metrics: can't accept a connection");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn answer(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = TimedStream::new(stream, REQUEST_TIMEOUT);
        let request = read_head(&mut stream)?;
        let (status, body) = match target(&request) {
            Ok("/metrics") => {
                (self.publish)();
                ("200 OK", self.metrics.render())
            }
            Ok(_) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
            Err(status) => (status, format!("{status}\n")),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
            Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        if !request.starts_with(b"HEAD ") {
            stream.write_all(body.as_bytes())?;
        }
        Ok(())
    }
}

/// Reads a request to the end of its header, up to the maximum length.
fn read_head(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    Ok(request)
}

/// Returns the target of a request without its query, or an error status.
fn target(request: &[u8]) -> Result<&str, &'static str> {
    const BAD: &str = "400 Bad Request";
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or(&[]);
    let mut words = str::from_utf8(line).map_err(|_| BAD)?.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|version| version.starts_with("HTTP/1."));
    let target = target.filter(|_| is_http && words.next().is_none());
    let target = target.ok_or(BAD)?;
    match method {
        Some("GET" | "HEAD") => Ok(target.split('?').next().unwrap_or(target)),
        _ => Err("405 Method Not Allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_targets_are_parsed() {
        for (request, found) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Ok("/metrics")),
            ("HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", Ok("/metrics")),
            ("GET / HTTP/1.1\r\n\r\n", Ok("/")),
            (
                "POST /metrics HTTP/1.1\r\n\r\n",
                Err("405 Method Not Allowed"),
            ),
            ("GET /metrics\r\n\r\n", Err("400 Bad Request")),
            ("GET /a b HTTP/1.1\r\n\r\n", Err("400 Bad Request")),
            ("", Err("400 Bad Request")),
        ] {
            assert_eq!(target(request.as_bytes()), found, "{request}");
        }
        assert_eq!(target(&[0xff, 0xfe]), Err("400 Bad Request"));
    }

    #[test]
    fn an_endless_request_is_read_in_part() {
        let endless = read_head(&mut io::repeat(b'a')).unwrap();
        assert_eq!(endless.len(), MAX_REQUEST);
        let whole = b"GET / HTTP/1.1\r\n\r\n";
        assert_eq!(read_head(&mut whole.as_slice()).unwrap(), whole);
    }
}
