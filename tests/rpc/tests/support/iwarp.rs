//! A peer of iWARP over TCP (RFC 5040, 5041 and 5044) and RPC-over-RDMA Version One (RFC 8166),
//! written by hand: it offers any chunks, and observes every segment that the server sends.

use rpcrdma_iwarp::{MpaOptions, MpaResponder, ReadDepths};
use rpcrdma_verbs::provider::iwarp::{IwarpConfig, IwarpDevice};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Returns a device for the server of such peers, which send no CRC.
pub fn device() -> IwarpDevice {
    IwarpDevice::new(IwarpConfig {
        crc: false,
        ..IwarpConfig::default()
    })
}

/// Asks for a connection by MPA revision 1 without CRC and markers (RFC 5044, section 7.1), with
/// the private data of RFC 8797. Returns whether the server accepts.
pub async fn set_up(stream: &mut TcpStream) -> bool {
    let private_data = [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3];
    let mut request = b"MPA ID Req Frame".to_vec();
    request.extend([0, 1, 0, 8]);
    request.extend(private_data);
    stream.write_all(&request).await.unwrap();
    let mut reply = [0; 20];
    if stream.read_exact(&mut reply).await.is_err() {
        return false;
    }
    let mut private_data = vec![0; u16::from_be_bytes([reply[18], reply[19]]).into()];
    let is_rejected = reply[16] & 0x20 != 0;
    stream.read_exact(&mut private_data).await.is_ok() && !is_rejected
}

/// Accepts a connection, without CRC and markers.
pub async fn accept(stream: &mut TcpStream) {
    let mut responder = MpaResponder::new();
    let request = loop {
        let byte = stream.read_u8().await.unwrap();
        if let Some(request) = responder.receive(&[byte]).unwrap() {
            break request;
        }
    };
    let options = MpaOptions {
        crc: false,
        depths: Some(ReadDepths { ird: 4, ord: 4 }),
        rtr: None,
        private_data: Vec::new(),
    };
    let (reply, _) = request.accept(&options).unwrap();
    stream.write_all(&reply).await.unwrap();
}

/// Returns a Send of one segment as an FPDU: the length, an untagged DDP segment of queue 0, and no
/// CRC (RFC 5044, section 4; RFC 5041, section 4.2; RFC 5040, section 4.3).
pub fn send(number: u32, message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(18 + message.len()).unwrap();
    let mut fpdu = length.to_be_bytes().to_vec();
    fpdu.extend([0x41, 0x43]);
    for word in [0, 0, number, 0] {
        fpdu.extend(u32::to_be_bytes(word));
    }
    fpdu.extend(message);
    fpdu.resize(fpdu.len().next_multiple_of(4) + 4, 0);
    fpdu
}

/// Reads the DDP segment of an FPDU.
pub async fn read_segment(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    let mut fpdu = vec![0; (2 + length).next_multiple_of(4) + 2];
    stream.read_exact(&mut fpdu).await?;
    fpdu.truncate(length);
    Ok(fpdu)
}

/// Returns a call with chunk lists (RFC 8166, section 4).
pub fn message(call: &[u8], lists: &[u32]) -> Vec<u8> {
    let xid = call[..4].to_vec();
    let words = [&[1, 32, 0], lists].concat();
    let words = words.into_iter().flat_map(u32::to_be_bytes);
    xid.into_iter().chain(words).chain(call.to_vec()).collect()
}

/// No chunks.
pub const NONE: [u32; 3] = [0; 3];
