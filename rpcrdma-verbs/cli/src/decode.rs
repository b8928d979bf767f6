//! `rpcrdma decode`: prints the header of one message, or passes a capture to `capture`.
//!
//! This module reads the input, and `rpcrdma_verbs::dump` formats it. Input that is no header is an
//! error. A message does not tell whether its connection uses properties or characteristics, so the
//! option `--characteristics` does.

use std::error::Error;
use std::io::Read;
use std::path::PathBuf;

use rpcrdma_proto::connection::Properties;
use rpcrdma_verbs::dump::Dump;

use crate::output::outln;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The message is hexadecimal: digits, with any separators.
    #[arg(long)]
    hex: bool,
    /// The connection uses transport characteristics (xcharext-02), not properties, which have the
    /// same codes.
    #[arg(long)]
    characteristics: bool,
    /// Print the messages of a capture, pcap or pcapng, of RoCEv2 or iWARP: time, direction,
    /// header, and the RPC procedure or status.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hex", "file"])]
    pcap: Option<PathBuf>,
    /// Print a line of JSON for each connection, message and loss of the capture.
    #[arg(long, requires = "pcap")]
    json: bool,
    /// File with the message, beginning with its transport header; the default is standard input.
    file: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let draft = if options.characteristics {
        Properties::Characteristics
    } else {
        Properties::Properties
    };
    if let Some(capture) = &options.pcap {
        return crate::capture::run(capture, options.json, draft);
    }
    let (bytes, source) = match &options.file {
        Some(file) => {
            let named = |error| format!("{}: {error}", file.display());
            let bytes = std::fs::read(file).map_err(named)?;
            (bytes, file.display().to_string())
        }
        None => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes)?;
            (bytes, "the standard input".to_owned())
        }
    };
    if bytes.is_empty() {
        return Err(format!("{source} is empty").into());
    }
    let bytes = if options.hex {
        from_hex(&bytes)?
    } else {
        bytes
    };
    let dump = Dump::new(&bytes).with_properties(draft);
    if !dump.is_header() {
        return Err(dump.to_string().into());
    }
    outln!("{dump:#}");
    Ok(())
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits: String = text
        .iter()
        .map(|digit| char::from(*digit))
        .filter(char::is_ascii_hexdigit)
        .collect();
    if digits.is_empty() {
        return Err("no hexadecimal digits".to_owned());
    }
    if !digits.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    let bytes = (0..digits.len())
        .step_by(2)
        .filter_map(|at| digits.get(at..at + 2));
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).map_err(|error| error.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::from_hex;

    #[test]
    fn hexadecimal_may_have_separators() {
        assert_eq!(from_hex(b"00 ff\n1a"), Ok(vec![0, 255, 26]));
        assert!(from_hex(b"123").is_err());
        assert_eq!(from_hex(b" \n"), Err("no hexadecimal digits".to_owned()));
    }
}
