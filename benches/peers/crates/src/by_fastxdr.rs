//! fastxdr decodes, and nothing else.

use std::convert::TryFrom;
use std::hint::black_box;

use bytes::Bytes;

use crate::Jobs;

#[allow(warnings, clippy::all)]
mod headers {
    include!(concat!(env!("OUT_DIR"), "/fastxdr.rs"));
    pub use xdr::*;
}

use headers::{
    Error, integers, onc_msg, optinfo_connprop, optxmt_req, rdma_msg, read_data, rpcrdma2_body,
    rpcrdma2_xprt_hdr,
};

type Header = rpcrdma2_xprt_hdr<Bytes>;

pub(crate) fn prepare(name: &str, octets: Vec<u8>) -> Result<Jobs, String> {
    let octets = Bytes::from(octets);
    match name {
        "v2-msg" | "v2-msg-chunks" | "v2-long-call" => decoder(octets, read::<Header>),
        // Refused: of an opaque it counts the octets without their length, by which it passes the
        // elements of an array.
        "connprop" => decoder(octets, read_both::<optinfo_connprop<Bytes>>),
        "xmtreq" => decoder(octets, read_both::<optxmt_req>),
        "v1-msg" | "v1-msg-chunks" | "v1-long-call" => decoder(octets, read::<rdma_msg>),
        "rpc-call" => decoder(octets, read::<onc_msg<Bytes>>),
        "opaque-1M" => decoder(octets, read::<read_data<Bytes>>),
        "integers-64K" | "integers-1M" => decoder(octets, read::<integers>),
        "nfs-compound" => {
            Err("an array of elements with opaques in them, which it does not decode".to_owned())
        }
        _ => Err("its type is not compiled".to_owned()),
    }
}

/// It writes nothing that could be compared with what it read. What it reads, it reads to the last
/// octet.
fn decoder<T: 'static>(
    octets: Bytes,
    decode: impl Fn(&Bytes) -> Result<T, Error> + 'static,
) -> Result<Jobs, String> {
    decode(&octets).map_err(|error| format!("does not decode: {error}"))?;
    Ok(Jobs::default().with("decode", move || decode(black_box(&octets))))
}

/// All of the octets as a `T`.
fn read<T: for<'a> TryFrom<&'a mut Bytes, Error = Error>>(octets: &Bytes) -> Result<T, Error> {
    // One that counts its users, as of what was received: a decoder eats it.
    let mut octets = octets.clone();
    let value = T::try_from(&mut octets)?;
    if octets.is_empty() {
        Ok(value)
    } else {
        Err(Error::InvalidLength)
    }
}

/// A header, and what its opaque holds.
fn read_both<T: for<'a> TryFrom<&'a mut Bytes, Error = Error>>(
    octets: &Bytes,
) -> Result<(Header, T), Error> {
    let header: Header = read(octets)?;
    let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &header.body else {
        return Err(Error::InvalidLength);
    };
    let inner = read(&optional.rdma_optinfo)?;
    Ok((header, inner))
}
