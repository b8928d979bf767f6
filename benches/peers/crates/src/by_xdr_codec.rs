//! xdr-codec, with what xdrgen 0.4 generates for it.

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

pub(crate) fn prepare(name: &str, octets: Vec<u8>) -> Result<Jobs, String> {
    let jobs = match name {
        "v2-msg" | "v2-msg-chunks" | "v2-long-call" => whole::<rpcrdma2_xprt_hdr>(octets),
        "connprop" => optional::<Connprop>(octets),
        "xmtreq" => optional::<optxmt_req>(octets),
        "v1-msg" | "v1-msg-chunks" | "v1-long-call" => whole::<rdma_msg>(octets),
        "opaque-1M" => whole::<read_data>(octets),
        "integers-64K" | "integers-1M" => whole::<integers>(octets),
        "rpc-call" => whole::<onc_msg>(octets),
        #[cfg(nfs)]
        "nfs-compound" => whole::<nfs::COMPOUND4res>(octets),
        _ => return Err("its type is not compiled".to_owned()),
    };
    jobs.map_err(|error| error.to_string().replace('\n', " "))
}

/// Read from a slice and written to one.
trait Codec: for<'a> Unpack<&'a [u8]> + for<'a> Pack<&'a mut [u8]> + 'static {}

impl<T: for<'a> Unpack<&'a [u8]> + for<'a> Pack<&'a mut [u8]> + 'static> Codec for T {}

/// All of the octets as a `T`.
fn read<T: Codec>(mut octets: &[u8]) -> Outcome<T> {
    let (value, _) = T::unpack(&mut octets)?;
    if octets.is_empty() {
        Ok(value)
    } else {
        Err(Error::from("octets are left"))
    }
}

fn write<T: Codec>(value: &T, mut room: &mut [u8]) -> Outcome<usize> {
    value.pack(&mut room)
}

fn whole<T: Codec>(octets: Vec<u8>) -> Outcome<Jobs> {
    let value = read::<T>(&octets)?;
    let mut room = vec![0; octets.len()];
    let used = write(&value, &mut room)?;
    check(&octets, &room[..used])?;
    let room = RefCell::new(room);
    Ok(Jobs::default()
        .with("decode", move || read::<T>(black_box(&octets)))
        .with("encode", move || {
            write(black_box(&value), black_box(&mut room.borrow_mut()))
        }))
}

fn check(octets: &[u8], written: &[u8]) -> Outcome<()> {
    if octets == written {
        Ok(())
    } else {
        Err(Error::from("what was decoded encodes otherwise"))
    }
}

/// What the opaque of `RDMA2_OPTIONAL` holds, as it is made before it is written.
trait Inner: Sized + 'static {
    type Octets: Codec;
    fn new(octets: Self::Octets) -> Outcome<Self>;
    fn octets(&mut self) -> Outcome<&Self::Octets>;
}

impl Inner for optxmt_req {
    type Octets = Self;

    fn new(octets: Self) -> Outcome<Self> {
        Ok(octets)
    }

    fn octets(&mut self) -> Outcome<&Self> {
        Ok(self)
    }
}

/// A property's value.
enum Value {
    Size(u32),
    On(bool),
    Support(bkreqsup),
}

/// The operation, and the values of its properties, which it has in opaques.
struct Connprop(optinfo_connprop, Vec<Value>);

impl Inner for Connprop {
    type Octets = optinfo_connprop;

    fn new(octets: optinfo_connprop) -> Outcome<Self> {
        let value = |property: &headers::propval| match i64::from(property.pv_which) {
            headers::PROP_RBSIZ => read(&property.pv_data).map(Value::Size),
            headers::PROP_REQREMINV => read(&property.pv_data).map(Value::On),
            headers::PROP_BRS => read(&property.pv_data).map(Value::Support),
            _ => Err(Error::from("an unknown property")),
        };
        let values = octets
            .opticonnpr_start
            .iter()
            .map(value)
            .collect::<Outcome<_>>()?;
        Ok(Self(octets, values))
    }

    fn octets(&mut self) -> Outcome<&optinfo_connprop> {
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

/// A header, and what its opaque holds.
fn read_both<T: Codec>(octets: &[u8]) -> Outcome<(rpcrdma2_xprt_hdr, T)> {
    let header: rpcrdma2_xprt_hdr = read(octets)?;
    let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &header.body else {
        return Err(Error::from("not optional"));
    };
    let inner = read(&optional.rdma_optinfo)?;
    Ok((header, inner))
}

/// The opaque is made again each time, in the vector that the header has for it.
fn write_both<T: Inner>(
    header: &mut rpcrdma2_xprt_hdr,
    inner: &mut T,
    room: &mut [u8],
) -> Outcome<usize> {
    if let rpcrdma2_body::RDMA2_OPTIONAL(optional) = &mut header.body {
        let used = write(inner.octets()?, room)?;
        optional.rdma_optinfo.clear();
        optional.rdma_optinfo.extend_from_slice(&room[..used]);
    }
    write(header, room)
}

fn optional<T: Inner>(octets: Vec<u8>) -> Outcome<Jobs> {
    let (mut header, inner) = read_both(&octets)?;
    let mut inner = T::new(inner)?;
    let mut room = vec![0; octets.len()];
    let used = write_both(&mut header, &mut inner, &mut room)?;
    check(&octets, &room[..used])?;
    let state = RefCell::new((header, inner, room));
    let encode = move || {
        let (header, inner, room) = &mut *state.borrow_mut();
        write_both(black_box(header), black_box(inner), black_box(room))
    };
    Ok(Jobs::default()
        .with("decode", move || read_both::<T::Octets>(black_box(&octets)))
        .with("encode", encode))
}
