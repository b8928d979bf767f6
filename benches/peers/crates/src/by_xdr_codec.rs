//! The codec of xdr-codec, with code that xdrgen 0.4 generates.

use std::cell::RefCell;
use std::hint::black_box;

use xdr_codec::{Error, Pack, Result as Outcome, Unpack};

use crate::Jobs;

#[allow(warnings, clippy::all)]
mod headers {
    include!(concat!(env!("OUT_DIR"), "/xdr_codec.rs"));
}

#[cfg(nfs)]
#[allow(warnings, clippy::all)]
mod nfs {
    include!(concat!(env!("OUT_DIR"), "/nfs.rs"));
}

use headers::{
    bkreqsup, integers, onc_msg, optinfo_connprop, optxmt_req, rdma_msg, read_data, rpcrdma2_body,
    rpcrdma2_xprt_hdr,
};

pub(crate) fn prepare(name: &str, bytes: Vec<u8>) -> Result<Jobs, String> {
    let jobs = match name {
        "v2-msg" | "v2-msg-chunks" | "v2-long-call" => whole::<rpcrdma2_xprt_hdr>(bytes),
        "connprop" => optional::<Connprop>(bytes),
        "xmtreq" => optional::<optxmt_req>(bytes),
        "v1-msg" | "v1-msg-chunks" | "v1-long-call" => whole::<rdma_msg>(bytes),
        "opaque-1M" => whole::<read_data>(bytes),
        "integers-64K" | "integers-1M" => whole::<integers>(bytes),
        "rpc-call" => whole::<onc_msg>(bytes),
        #[cfg(nfs)]
        "nfs-compound" => whole::<nfs::COMPOUND4res>(bytes),
        _ => return Err("its type is not compiled".to_owned()),
    };
    jobs.map_err(|error| error.to_string().replace('\n', " "))
}

/// A type that is read from a slice and written to a slice.
trait Codec: for<'a> Unpack<&'a [u8]> + for<'a> Pack<&'a mut [u8]> + 'static {}

impl<T: for<'a> Unpack<&'a [u8]> + for<'a> Pack<&'a mut [u8]> + 'static> Codec for T {}

/// Decodes all bytes as a `T`.
fn read<T: Codec>(mut bytes: &[u8]) -> Outcome<T> {
    let (value, _) = T::unpack(&mut bytes)?;
    if bytes.is_empty() {
        Ok(value)
    } else {
        Err(Error::from("bytes are left"))
    }
}

fn write<T: Codec>(value: &T, mut room: &mut [u8]) -> Outcome<usize> {
    value.pack(&mut room)
}

fn whole<T: Codec>(bytes: Vec<u8>) -> Outcome<Jobs> {
    let value = read::<T>(&bytes)?;
    let mut room = vec![0; bytes.len()];
    let used = write(&value, &mut room)?;
    check(&bytes, &room[..used])?;
    let room = RefCell::new(room);
    Ok(Jobs::default()
        .with("decode", move || read::<T>(black_box(&bytes)))
        .with("encode", move || {
            write(black_box(&value), black_box(&mut room.borrow_mut()))
        }))
}

fn check(bytes: &[u8], written: &[u8]) -> Outcome<()> {
    if bytes == written {
        Ok(())
    } else {
        Err(Error::from("what was decoded encodes otherwise"))
    }
}

/// The content of the opaque of `RDMA2_OPTIONAL`, which is encoded before the header.
trait Inner: Sized + 'static {
    type Bytes: Codec;
    fn new(bytes: Self::Bytes) -> Outcome<Self>;
    fn bytes(&mut self) -> Outcome<&Self::Bytes>;
}

impl Inner for optxmt_req {
    type Bytes = Self;

    fn new(bytes: Self) -> Outcome<Self> {
        Ok(bytes)
    }

    fn bytes(&mut self) -> Outcome<&Self> {
        Ok(self)
    }
}

/// A property's value.
enum Value {
    Size(u32),
    On(bool),
    Support(bkreqsup),
}

/// The operation, and the values of its properties, which are encoded as opaques.
struct Connprop(optinfo_connprop, Vec<Value>);

impl Inner for Connprop {
    type Bytes = optinfo_connprop;

    fn new(bytes: optinfo_connprop) -> Outcome<Self> {
        let value = |property: &headers::propval| match i64::from(property.pv_which) {
            headers::PROP_RBSIZ => read(&property.pv_data).map(Value::Size),
            headers::PROP_REQREMINV => read(&property.pv_data).map(Value::On),
            headers::PROP_BRS => read(&property.pv_data).map(Value::Support),
            _ => Err(Error::from("an unknown property")),
        };
        let values = bytes
            .opticonnpr_start
            .iter()
            .map(value)
            .collect::<Outcome<_>>()?;
        Ok(Self(bytes, values))
    }

    fn bytes(&mut self) -> Outcome<&optinfo_connprop> {
        for (property, value) in self.0.opticonnpr_start.iter_mut().zip(&self.1) {
            match value {
                Value::Size(size) => write(size, &mut property.pv_data)?,
                Value::On(on) => write(on, &mut property.pv_data)?,
                Value::Support(support) => write(support, &mut property.pv_data)?,
            };
        }
        Ok(&self.0)
    }
}

/// Decodes a header and the content of its opaque.
fn read_both<T: Codec>(bytes: &[u8]) -> Outcome<(rpcrdma2_xprt_hdr, T)> {
    let header: rpcrdma2_xprt_hdr = read(bytes)?;
    let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &header.body else {
        return Err(Error::from("not optional"));
    };
    let inner = read(&optional.rdma_optinfo)?;
    Ok((header, inner))
}

/// Encodes a header and the content of its opaque. The opaque is encoded each time, into the
/// header's vector.
fn write_both<T: Inner>(
    header: &mut rpcrdma2_xprt_hdr,
    inner: &mut T,
    room: &mut [u8],
) -> Outcome<usize> {
    if let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &mut header.body {
        let used = write(inner.bytes()?, room)?;
        optional.rdma_optinfo.clear();
        optional.rdma_optinfo.extend_from_slice(&room[..used]);
    }
    write(header, room)
}

fn optional<T: Inner>(bytes: Vec<u8>) -> Outcome<Jobs> {
    let (mut header, inner) = read_both(&bytes)?;
    let mut inner = T::new(inner)?;
    let mut room = vec![0; bytes.len()];
    let used = write_both(&mut header, &mut inner, &mut room)?;
    check(&bytes, &room[..used])?;
    let state = RefCell::new((header, inner, room));
    let encode = move || {
        let (header, inner, room) = &mut *state.borrow_mut();
        write_both(black_box(header), black_box(inner), black_box(room))
    };
    Ok(Jobs::default()
        .with("decode", move || read_both::<T::Bytes>(black_box(&bytes)))
        .with("encode", encode))
}
