//! Transport properties (xcharext-03) and transport characteristics (xcharext-02) as text.
//!
//! The wording is output of the command `rpcrdma`, as that of `dump`. An operation of `name`
//! without an arm in `show`, or one that cannot be decoded, is displayed by its name only.

use std::fmt;

use rpcrdma_proto::connection::Properties;
use rpcrdma_proto::property::{BasicProperty, RtrCapability};
use rpcrdma_proto::v2::characteristics::{Respxch, Updxch, Xcharval};
use rpcrdma_proto::v2::properties::{
    Connprop, Propval, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP, Reqprop, Resprop,
    Updprop,
};
use rpcrdma_proto::xdr::Decode;

use super::{groups, separate};

/// Returns the name of an operation, or `None` if it is of neither draft. The first operation of a
/// connection has the same encoding in both.
pub(super) fn name(code: u32, draft: Properties) -> Option<&'static str> {
    let of_two = draft == Properties::Characteristics;
    Some(match code {
        ROPT_CONNPROP => {
            if of_two {
                "ROPT_INITXCH"
            } else {
                "ROPT_CONNPROP"
            }
        }
        ROPT_REQPROP => {
            if of_two {
                "ROPT_REQXCH"
            } else {
                "ROPT_REQPROP"
            }
        }
        ROPT_RESPROP => {
            if of_two {
                "ROPT_RESPXCH"
            } else {
                "ROPT_RESPROP"
            }
        }
        ROPT_UPDPROP => {
            if of_two {
                "ROPT_UPDXCH"
            } else {
                "ROPT_UPDPROP"
            }
        }
        _ => return None,
    })
}

/// Displays an operation, if it can be decoded.
pub(super) fn show(
    code: u32,
    draft: Properties,
    info: &[u8],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match (code, draft) {
        (ROPT_CONNPROP, _) => {
            Connprop::from_bytes(info).map_or(Ok(()), |decoded| values("", decoded.start.iter(), f))
        }
        (ROPT_REQPROP, _) => {
            Reqprop::from_bytes(info).map_or(Ok(()), |asked| values("", asked.want.iter(), f))
        }
        (ROPT_UPDPROP, Properties::Characteristics) => {
            Updxch::from_bytes(info).map_or(Ok(()), |decoded| {
                let Updxch {
                    now: Xcharval { which, data },
                    pendclr,
                } = decoded;
                let what = if pendclr { "no longer pending: " } else { "" };
                values(what, [Propval { which, data }].into_iter(), f)
            })
        }
        (ROPT_UPDPROP, _) => {
            Updprop::from_bytes(info).map_or(Ok(()), |decoded| values("", decoded.now.iter(), f))
        }
        (ROPT_RESPROP, Properties::Characteristics) => {
            Respxch::from_bytes(info).map_or(Ok(()), |answer| {
                subset("done", answer.done.iter(), f)?;
                subset("rejected", answer.rej.iter(), f)?;
                subset("pending", answer.pend.iter(), f)
            })
        }
        (ROPT_RESPROP, _) => Resprop::from_bytes(info).map_or(Ok(()), |answer| {
            subset("done", answer.done.iter(), f)?;
            subset("rejected", answer.rej.iter(), f)?;
            values("instead ", answer.other.iter(), f)
        }),
        _ => Ok(()),
    }
}

fn values<'a>(
    what: &str,
    values: impl Iterator<Item = Propval<'a>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for value in values {
        separate(f)?;
        match BasicProperty::from_propval(&value) {
            Ok(Some(BasicProperty::ReceiveBufferSize(size))) => {
                write!(f, "{what}receive buffers of {size} bytes")?
            }
            Ok(Some(BasicProperty::RemoteInvalidation(on))) => {
                write!(
                    f,
                    "{what}remote invalidation {}",
                    if on { "wanted" } else { "not wanted" }
                )?;
            }
            Ok(Some(BasicProperty::BackwardSupport(support))) => {
                write!(f, "{what}backward calls {support}")?
            }
            Ok(None) => match RtrCapability::from_propval(&value) {
                Ok(Some(ability)) => groups::ability(what, &ability, f)?,
                _ => write!(
                    f,
                    "{what}property {} of {} bytes",
                    value.which,
                    value.data.len()
                )?,
            },
            Err(error) => write!(f, "{what}property {}: {error}", value.which)?,
        }
    }
    Ok(())
}

fn subset(what: &str, words: impl Iterator<Item = u32>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, word) in words.enumerate().filter(|(_, word)| *word != 0) {
        separate(f)?;
        write!(f, "{what}")?;
        for bit in (0..32).filter(|bit| word >> bit & 1 == 1) {
            write!(f, " {}", 32 * at + bit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rpcrdma_proto::connection::Properties;
    use rpcrdma_proto::v2::characteristics::{
        ROPT_RESPXCH, ROPT_UPDXCH, Respxch, Updxch, Xcharval,
    };
    use rpcrdma_proto::v2::properties::{ROPT_UPDPROP, Updprop};
    use rpcrdma_proto::v2::{Body, MsgType, Optional, XprtHdr};
    use rpcrdma_proto::xdr::Encode;

    use super::Propval;
    use crate::dump::Dump;

    /// Returns the text for connections of either draft.
    fn shown(opttype: u32, optdir: MsgType, info: &impl Encode) -> [String; 2] {
        let optinfo = info.encode_to_vec().unwrap();
        let body = Body::Optional(Optional {
            optdir,
            opttype,
            optinfo: &optinfo,
        });
        let message = XprtHdr {
            xid: 7,
            vers: 2,
            credit: 32,
            body,
        }
        .encode_to_vec()
        .unwrap();
        let dump = Dump::new(&message);
        [
            dump.to_string(),
            dump.with_properties(Properties::Characteristics)
                .to_string(),
        ]
    }

    #[test]
    fn operations_are_shown_as_their_draft_has_them() {
        let data = [0, 0, 0x20, 0];
        let now = Xcharval {
            which: 1,
            data: &data,
        };
        let [_, update] = shown(ROPT_UPDXCH, MsgType::Call, &Updxch { now, pendclr: true });
        assert_eq!(
            update,
            "ROPT_UPDXCH call 0x00000007, 32 credits, no longer pending: receive buffers of 8192 \
            bytes"
        );
        let answer = Respxch {
            done: (&[0]).into(),
            rej: (&[4]).into(),
            pend: (&[2]).into(),
        };
        let [_, answer] = shown(ROPT_RESPXCH, MsgType::Reply, &answer);
        assert_eq!(
            answer,
            "ROPT_RESPXCH reply 0x00000007, 32 credits, rejected 2, pending 1"
        );
        let set = [Propval {
            which: 1,
            data: &data,
        }];
        let [properties, of_the_other] =
            shown(ROPT_UPDPROP, MsgType::Call, &Updprop { now: (&set).into() });
        assert_eq!(
            properties,
            "ROPT_UPDPROP call 0x00000007, 32 credits, receive buffers of 8192 bytes"
        );
        assert_eq!(
            of_the_other, "ROPT_UPDXCH call 0x00000007, 32 credits",
            "what can't be read is not shown"
        );
    }
}
