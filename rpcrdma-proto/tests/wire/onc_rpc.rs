//! ONC RPC messages (RFC 5531).

use super::*;
use rpc::{
    AcceptStat, AcceptedReplyData, AuthFlavor, AuthStat, MismatchInfo, RejectedReply, ReplyBody,
    RpcMsgBody,
};

/// RFC 5531, section 9 and appendix A: NFSv3 GETATTR with AUTH_SYS.
const CALL: &str = "
        00000100 00000000  # xid, CALL
        00000002 000186a3 00000003 00000001  # rpcvers, prog, vers, proc
        00000001 00000024  # AUTH_SYS, 36 bytes
        00000099                       # stamp
        00000006 636c69656e74 0000     # machinename
        000003e8 00000064              # uid, gid
        00000002 0000000a 00000014     # gids
        00000000 00000000  # AUTH_NONE, empty
    ";

#[test]
fn call_with_auth_sys() {
    let bytes = hex(CALL);
    let (message, own) = both::<rpc::owned::RpcMsg>(bytes);
    let RpcMsgBody::Call(call) = message.body else {
        panic!("{message:?}")
    };
    assert_eq!((message.xid, call.rpcvers), (256, rpc::RPC_VERSION));
    assert_eq!((call.prog, call.vers, call.proc), (100_003, 3, 1));
    assert_eq!(
        (call.cred.flavor, call.verf.flavor),
        (AuthFlavor::AuthSys as u32, AuthFlavor::AuthNone as u32)
    );
    let (parameters, _) = both::<rpc::owned::AuthsysParms>(call.cred.body.as_bytes());
    assert_eq!(
        (parameters.stamp, parameters.uid, parameters.gid),
        (0x99, 1000, 100)
    );
    assert_eq!(parameters.machinename.to_str(), Ok("client"));
    assert_eq!(parameters.gids.iter().collect::<Vec<_>>(), [10, 20]);
    assert!(matches!(own.body, rpc::owned::RpcMsgBody::Call(call) if call.cred.body.len() == 36));
    let arguments = [bytes, &[0, 0, 0, 4, 1, 2, 3, 4]].concat();
    assert_eq!(
        rpc::RpcMsg::from_prefix(&arguments).unwrap().1,
        [0, 0, 0, 4, 1, 2, 3, 4]
    );
}

#[test]
fn bounds_of_authentication() {
    let mut long = hex(CALL).to_vec();
    long[28..32].copy_from_slice(&401u32.to_be_bytes());
    assert_eq!(
        why::<rpc::RpcMsg<'_>>(&long),
        "body.cbody.cred.body: length exceeds its bound at byte 28"
    );
    let seventeen = [&[0; 16][..], &17u32.to_be_bytes(), &[0; 68]].concat();
    assert_eq!(
        why::<rpc::AuthsysParms<'_>>(&seventeen),
        "gids: length exceeds its bound at byte 16"
    );
    let padded = hex("00000099 00000001 41000001");
    assert_eq!(
        why::<rpc::AuthsysParms<'_>>(padded),
        "machinename: padding is not zero at byte 9"
    );
}

fn accepted(content: &str) -> AcceptedReplyData {
    let bytes = hex(&format!(
        "00000100 00000001 00000000 00000000 00000000 {content}"
    ));
    let (message, _) = both::<rpc::owned::RpcMsg>(bytes);
    let RpcMsgBody::Reply(ReplyBody::Accepted(reply)) = message.body else {
        panic!("{message:?}")
    };
    assert_eq!((reply.verf.flavor, reply.verf.body.len()), (0, 0));
    reply.reply_data
}

#[test]
fn accepted_replies() {
    assert_eq!(accepted("00000000"), AcceptedReplyData::Success);
    assert_eq!(accepted("00000001"), AcceptedReplyData::ProgUnavail);
    let mismatch = MismatchInfo { low: 2, high: 4 };
    assert_eq!(
        accepted("00000002 00000002 00000004"),
        AcceptedReplyData::ProgMismatch(mismatch)
    );
    assert_eq!(accepted("00000003"), AcceptedReplyData::ProcUnavail);
    assert_eq!(accepted("00000004"), AcceptedReplyData::GarbageArgs);
    assert_eq!(accepted("00000005").stat(), AcceptStat::SystemErr);
    let other = hex("00000100 00000001 00000000 00000000 00000000 00000006");
    assert_eq!(
        why::<rpc::RpcMsg<'_>>(other),
        "body.rbody.areply.reply_data: discriminant without an arm at byte 20"
    );
}

#[test]
fn denied_replies() {
    let denied = |content: &str| {
        let (message, _) =
            both::<rpc::owned::RpcMsg>(hex(&format!("00000100 00000001 00000001 {content}")));
        let RpcMsgBody::Reply(ReplyBody::Denied(reply)) = message.body else {
            panic!("{message:?}")
        };
        reply
    };
    let range = MismatchInfo { low: 2, high: 2 };
    assert_eq!(
        denied("00000000 00000002 00000002"),
        RejectedReply::RpcMismatch(range)
    );
    assert_eq!(
        denied("00000001 00000005"),
        RejectedReply::AuthError(AuthStat::AuthTooweak)
    );
    assert_eq!(
        denied("00000001 0000000e"),
        RejectedReply::AuthError(AuthStat::RpcsecGssCtxproblem)
    );
    let other = hex("00000100 00000001 00000001 00000001 0000000f");
    assert_eq!(
        why::<rpc::RpcMsg<'_>>(other),
        "body.rbody.rreply.why: unknown value of an enumeration at byte 16"
    );
}
