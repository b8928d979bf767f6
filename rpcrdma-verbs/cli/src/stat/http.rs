//! Reads a page from a server by HTTP.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::timed_stream::TimedStream;

/// The maximum bytes of a page.
const MAX_PAGE: u64 = 16 << 20;

/// Reads the page of metrics.
pub(super) fn get(server: SocketAddr, timeout: Duration) -> io::Result<String> {
    let began = Instant::now();
    let stream = TcpStream::connect_timeout(&server, timeout.max(Duration::from_millis(1)))?;
    let mut stream = TimedStream::new(stream, timeout.saturating_sub(began.elapsed()));
    // In HTTP 1.0 the page ends with the connection.
    let request = format!(
        "GET /metrics HTTP/1.0\r\nHost: {server}\r\nAccept: text/plain;version=0.0.4\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_PAGE + 1).read_to_end(&mut answer)?;
    if answer.len() as u64 > MAX_PAGE {
        return Err(io::Error::other("the page is over 16 MiB"));
    }
    body(&answer).map_err(io::Error::other)
}

/// Returns the body of a response.
fn body(answer: &[u8]) -> Result<String, String> {
    let text = str::from_utf8(answer).map_err(|_| "the response is not text")?;
    let no_http = || "the answer is not HTTP".to_owned();
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let line = head.lines().next().unwrap_or_default();
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_once(' '));
    let (_, status) = status.ok_or_else(no_http)?;
    if !status.starts_with("200") {
        return Err(format!("the server answers {status}"));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| length != body.len()) {
        return Err("the answer is cut off".to_owned());
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn responses_have_a_body_or_an_error() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na\n";
        assert_eq!(body(whole.as_bytes()), Ok("a\n".to_owned()));
        assert_eq!(body(b"HTTP/1.0 200 OK\r\n\r\nb"), Ok("b".to_owned()));
        for (answer, error) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "the answer is not HTTP"),
            (b"ICY 200 OK\r\n\r\n", "the answer is not HTTP"),
            (b"\xff\xff", "the response is not text"),
            (
                b"HTTP/1.1 404 Not Found\r\n\r\n",
                "the server answers 404 Not Found",
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na",
                "the answer is cut off",
            ),
        ] {
            assert_eq!(body(answer), Err(error.to_owned()));
        }
    }
}
