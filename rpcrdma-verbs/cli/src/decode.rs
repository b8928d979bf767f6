//! `rpcrdma decode`.

use std::error::Error;
use std::io::Read;
use std::path::PathBuf;

use rpcrdma_proto::connection::Properties;
use rpcrdma_verbs::dump::Dump;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The message is given in hexadecimal: digits, and whatever stands between them.
    #[arg(long)]
    hex: bool,
    /// The connection speaks transport characteristics (xcharext-02), not properties, which have the same codes.
    #[arg(long)]
    characteristics: bool,
    /// The file with the message, from its transport header on; standard input if there is none.
    file: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let octets = match &options.file {
        Some(file) => std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?,
        None => {
            let mut octets = Vec::new();
            std::io::stdin().read_to_end(&mut octets)?;
            octets
        }
    };
    let octets = if options.hex { from_hex(&octets)? } else { octets };
    let draft = if options.characteristics { Properties::Characteristics } else { Properties::Properties };
    println!("{:#}", Dump::new(&octets).speaking(draft));
    Ok(())
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits: String = text.iter().map(|digit| char::from(*digit)).filter(char::is_ascii_hexdigit).collect();
    if !digits.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    let octets = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2));
    octets.map(|octet| u8::from_str_radix(octet, 16).map_err(|error| error.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::from_hex;

    #[test]
    fn hexadecimal_is_read_with_what_stands_between() {
        assert_eq!(from_hex(b"00 ff\n1a"), Ok(vec![0, 255, 26]));
        assert!(from_hex(b"123").is_err());
    }
}
