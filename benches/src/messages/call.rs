//! The header of an NFS call with AUTH_SYS.

use std::hint::black_box;

use oncrpc::protocol::{
    AuthFlavor, AuthsysParms, CallBody, OpaqueAuth, RPC_VERSION, RpcMsg, RpcMsgBody,
};
use xdrgen_runtime::{Decode, Encode, Opaque, Text};

use super::encoded;
use crate::codec::Codec;
use crate::hand::call;
use crate::message::Message;

const MACHINE: &str = "client.example.org";
const GIDS: [u32; 4] = [10, 20, 30, 40];
const PROCEDURE: [u32; 3] = [100_003, 4, 1];

pub(super) fn call() -> Message {
    let encode = |buffer: &mut [u8]| {
        let parameters = black_box(AuthsysParms {
            stamp: 0x99,
            machinename: Text::new(MACHINE).unwrap_or_default(),
            uid: 1000,
            gid: 100,
            gids: xdrgen_runtime::Array::new(&GIDS).unwrap_or_default(),
        });
        let mut room = [0; 400];
        let used = parameters.encode_to_slice(&mut room).unwrap_or_default();
        let body = Opaque::new(&room[..used]).unwrap_or_default();
        let [prog, vers, proc] = black_box(PROCEDURE);
        let call = CallBody {
            rpcvers: RPC_VERSION,
            prog,
            vers,
            proc,
            cred: OpaqueAuth {
                flavor: AuthFlavor::AuthSys.value().cast_unsigned(),
                body,
            },
            verf: OpaqueAuth {
                flavor: 0,
                body: Opaque::default(),
            },
        };
        encoded(
            &RpcMsg {
                xid: 256,
                body: RpcMsgBody::Call(call),
            },
            buffer,
        )
    };
    let by_hand = call::Call {
        xid: 256,
        procedure: PROCEDURE,
        stamp: 0x99,
        machine: MACHINE.as_bytes(),
        uid: 1000,
        gid: 100,
        gids: &GIDS,
    };
    Message::new("rpc-call", encode)
        .encode(Codec::Hand, move |buffer| {
            call::encode(black_box(&by_hand), buffer)
        })
        .decode(Codec::Generated, RpcMsg::from_bytes)
        .decode(Codec::Hand, call::visit)
        .decode(Codec::Locating, call::locate)
        .visit(Codec::Generated, sum)
        .visit(Codec::Hand, call::visit)
}

fn sum(bytes: &[u8]) -> Option<u64> {
    let message = RpcMsg::from_bytes(bytes).ok()?;
    let RpcMsgBody::Call(call) = message.body else {
        return None;
    };
    let credentials = AuthsysParms::from_bytes(call.cred.body.as_bytes()).ok()?;
    let words = [
        message.xid,
        call.rpcvers,
        call.prog,
        call.vers,
        call.proc,
        call.verf.flavor,
    ];
    let ids = [credentials.stamp, credentials.uid, credentials.gid];
    let name = credentials
        .machinename
        .as_bytes()
        .iter()
        .map(|byte| u64::from(*byte));
    Some(
        words
            .into_iter()
            .chain(ids)
            .chain(credentials.gids.iter())
            .map(u64::from)
            .chain(name)
            .sum(),
    )
}
