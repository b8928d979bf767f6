//! The codec of fastxdr, which only decodes.

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

pub(crate) fn prepare(name: &str, bytes: Vec<u8>) -> Result<Jobs, String> {
    let bytes = Bytes::from(bytes);
    match name {
        "v2-msg" | "v2-msg-chunks" | "v2-long-call" => decoder(bytes, read::<Header>),
        // It rejects this message: it counts the bytes of an opaque without the length word when it
        // skips the elements of an array.
        "connprop" => decoder(bytes, read_both::<optinfo_connprop<Bytes>>),
        "xmtreq" => decoder(bytes, read_both::<optxmt_req>),
        "v1-msg" | "v1-msg-chunks" | "v1-long-call" => decoder(bytes, read::<rdma_msg>),
        "rpc-call" => decoder(bytes, read::<onc_msg<Bytes>>),
        "opaque-1M" => decoder(bytes, read::<read_data<Bytes>>),
        "integers-64K" | "integers-1M" => decoder(bytes, read::<integers>),
        "nfs-compound" => {
            Err("an array of elements with opaques in them, which it does not decode".to_owned())
        }
        _ => Err("its type is not compiled".to_owned()),
    }
}

/// Creates the job of decoding. fastxdr has no encoder with which to compare the value. A decode
/// must consume all bytes.
fn decoder<T: 'static>(
    bytes: Bytes,
    decode: impl Fn(&Bytes) -> Result<T, Error> + 'static,
) -> Result<Jobs, String> {
    decode(&bytes).map_err(|error| format!("does not decode: {error}"))?;
    Ok(Jobs::default().with("decode", move || decode(black_box(&bytes))))
}

/// Decodes all bytes as a `T`.
fn read<T: for<'a> TryFrom<&'a mut Bytes, Error = Error>>(bytes: &Bytes) -> Result<T, Error> {
    // A reference-counted clone, because the decoder consumes its input.
    let mut bytes = bytes.clone();
    let value = T::try_from(&mut bytes)?;
    if bytes.is_empty() {
        Ok(value)
    } else {
        Err(Error::InvalidLength)
    }
}

/// Decodes a header and the content of its opaque.
fn read_both<T: for<'a> TryFrom<&'a mut Bytes, Error = Error>>(
    bytes: &Bytes,
) -> Result<(Header, T), Error> {
    let header: Header = read(bytes)?;
    let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &header.body else {
        return Err(Error::InvalidLength);
    };
    let inner = read(&optional.rdma_optinfo)?;
    Ok((header, inner))
}
