//! The encodings of the property operations in the two drafts (decision D5).
//!
//! The announcement at the start of a connection and the requests have the same encoding in both.
//! Answers and updates differ.
//!
//! The largest announcement must fit `MAX_CONTENT` bytes, and its properties one word of the subset
//! `nochg`. Otherwise `write_start` fails, and no call is admitted, since the announcement precedes
//! it.

use arrayvec::ArrayVec;

use super::PropertyExchange;
use super::pending::LocalChange;
use super::registry::MAX_REGISTERED;
use crate::connection::config::Properties;
use crate::connection::optional_header::OptionalHeader;
use crate::connection::params::ConnectionParams;
use crate::property::{
    BasicProperty, CAPABILITIES, Disposition, PropertyResponse, PropertyValues,
    characteristic_dispositions, dispositions,
};
use crate::v2::MsgType;
use crate::v2::characteristics::{self, Respxch, Updxch, Xcharval};
use crate::v2::properties::{
    Connprop, Propval, Propvalset, ROPT_CONNPROP, ROPT_REQPROP, ROPT_RESPROP, ROPT_UPDPROP,
    Reqprop, Resprop, Updprop,
};
use crate::xdr::{self, Decode, Encode};

// spec: xc2-4-a, xc2-4-b, xc2-4-c, xc2-4-d
const _: () = {
    assert!(
        characteristics::ROPT_INITXCH == ROPT_CONNPROP
            && characteristics::ROPT_REQXCH == ROPT_REQPROP
    );
    assert!(
        characteristics::ROPT_RESPXCH == ROPT_RESPROP
            && characteristics::ROPT_UPDXCH == ROPT_UPDPROP
    );
};

/// The draft that a connection uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PropertyDraft {
    /// xcharext-03.
    Properties,
    /// xcharext-02.
    Characteristics,
}

/// A property operation of the peer.
#[derive(Debug)]
pub(super) enum PropertyOperation<'a> {
    /// ROPT_CONNPROP, or ROPT_INITXCH.
    Start(Connprop<'a>),
    /// ROPT_REQPROP, or ROPT_REQXCH.
    Request(Reqprop<'a>),
    Response(ChangeResponse<'a>),
    Update(PropertyUpdate<'a>),
}

/// ROPT_RESPROP, or ROPT_RESPXCH.
#[derive(Debug)]
pub(super) enum ChangeResponse<'a> {
    Properties(Resprop<'a>),
    Characteristics(Respxch<'a>),
}

/// ROPT_UPDPROP, or ROPT_UPDXCH.
#[derive(Debug)]
pub(super) struct PropertyUpdate<'a> {
    now: UpdatedValues<'a>,
    /// Whether the requested change of this property is no longer pending.
    pub(super) clears: bool,
}

#[derive(Debug)]
enum UpdatedValues<'a> {
    Set(Propvalset<'a>),
    One([Propval<'a>; 1]),
}

impl PropertyDraft {
    pub(super) const fn of(properties: Properties) -> Option<Self> {
        match properties {
            Properties::None => None,
            Properties::Properties => Some(Self::Properties),
            Properties::Characteristics => Some(Self::Characteristics),
        }
    }

    /// Decodes a property operation; returns `None` for any other operation.
    ///
    /// # Errors
    /// It is malformed. Its values are not decoded here.
    // spec: xc2-2.1-d, xc2-4-a, xc2-4-b, xc2-4-c, xc2-4-d, xc2-4.4-f, xc2-4.4-g
    pub(super) fn read(self, code: u32, info: &[u8]) -> xdr::Result<Option<PropertyOperation<'_>>> {
        Ok(Some(match (code, self) {
            (ROPT_CONNPROP, _) => PropertyOperation::Start(Connprop::from_bytes(info)?),
            (ROPT_REQPROP, _) => PropertyOperation::Request(Reqprop::from_bytes(info)?),
            (ROPT_RESPROP, Self::Properties) => {
                PropertyOperation::Response(ChangeResponse::Properties(Resprop::from_bytes(info)?))
            }
            (ROPT_RESPROP, Self::Characteristics) => PropertyOperation::Response(
                ChangeResponse::Characteristics(Respxch::from_bytes(info)?),
            ),
            (ROPT_UPDPROP, Self::Properties) => PropertyOperation::Update(PropertyUpdate {
                now: UpdatedValues::Set(Updprop::from_bytes(info)?.now),
                clears: false,
            }),
            (ROPT_UPDPROP, Self::Characteristics) => {
                let Updxch {
                    now: Xcharval { which, data },
                    pendclr,
                } = Updxch::from_bytes(info)?;
                PropertyOperation::Update(PropertyUpdate {
                    now: UpdatedValues::One([Propval { which, data }]),
                    clears: pendclr,
                })
            }
            _ => return Ok(None),
        }))
    }

    /// Writes the answer to a request.
    // spec: xc2-4.3-a, xc2-4.3-b
    pub(super) fn write_response(
        self,
        buffer: &mut [u8],
        xid: u32,
        credits: u32,
        answer: &PropertyResponse,
    ) -> Option<usize> {
        let header = OptionalHeader {
            xid,
            credits,
            direction: MsgType::Reply,
            operation: ROPT_RESPROP,
        };
        match self {
            Self::Properties => answer.with_properties(|response| write(buffer, header, &response)),
            Self::Characteristics => {
                answer.with_characteristics(|response| write(buffer, header, &response))
            }
        }
    }

    /// Writes an update of all changes; in xcharext-02, whose updates have one value, of the first
    /// change. Returns its size in bytes and the number of changes in it.
    // spec: xc3-4-h, xc3-4.4-b, xc3-3-n, xc2-3-j, xc2-4.4-c, xc2-4.4-e, xc2-4.4-f, xc2-4.4-g
    pub(super) fn write_update(
        self,
        buffer: &mut [u8],
        xid: u32,
        credits: u32,
        changed: &[LocalChange],
        ours: &PropertyValues,
    ) -> Option<(usize, usize)> {
        let header = OptionalHeader {
            xid,
            credits,
            direction: MsgType::Call,
            operation: ROPT_UPDPROP,
        };
        // The current value, since a request of the peer may have changed the property once more.
        let values: ArrayVec<_, 3> = changed
            .iter()
            .take(3)
            .map(|change| ours.get(change.value))
            .collect();
        let words: ArrayVec<[u8; 4], 3> = values
            .iter()
            .map(|value| value.word().to_be_bytes())
            .collect();
        let now = values.iter().zip(&words).map(|(value, word)| Propval {
            which: value.code(),
            data: word,
        });
        let now: ArrayVec<Propval<'_>, 3> = now.collect();
        match self {
            Self::Properties => Some((
                write(
                    buffer,
                    header,
                    &Updprop {
                        now: now.as_slice().into(),
                    },
                )?,
                now.len(),
            )),
            Self::Characteristics => {
                let (Propval { which, data }, change) = (now.first()?, changed.first()?);
                let update = Updxch {
                    now: Xcharval {
                        which: *which,
                        data,
                    },
                    pendclr: change.clears,
                };
                Some((write(buffer, header, &update)?, 1))
            }
        }
    }
}

impl<'a> ChangeResponse<'a> {
    /// Returns the disposition of the first requested change.
    pub(super) fn disposition(&self, request: &Reqprop<'a>) -> Option<Disposition<'a>> {
        match self {
            Self::Properties(response) => dispositions(request, response).next(),
            Self::Characteristics(response) => {
                characteristic_dispositions(request, response).next()
            }
        }
    }
}

impl PropertyUpdate<'_> {
    pub(super) fn now(&self) -> Propvalset<'_> {
        match &self.now {
            UpdatedValues::Set(set) => *set,
            UpdatedValues::One(one) => one.into(),
        }
    }
}

impl PropertyExchange {
    // spec: xc3-4-e, xc3-2.1-a, xc3-2.1-b, xc3-3-a, xc3-3-b, xc3-3-c, xc3-3-h, xc3-3-i, xc3-4.1-b
    // spec: xc3-4.1-f, xc3-4.1-g
    // spec: xc2-2.1-i, xc2-2.1-j, xc2-3-b, xc2-3-c, xc2-3-d, xc2-3-e, xc2-4.1-b, xc2-4.1-f
    // spec: xc2-4.1-g
    pub(super) fn write_start(
        &self,
        buffer: &mut [u8],
        xid: u32,
        credits: u32,
        params: &ConnectionParams,
    ) -> Option<usize> {
        let ours = params.local;
        let basics = [
            BasicProperty::ReceiveBufferSize(ours.receive_buffer_size),
            BasicProperty::RemoteInvalidation(ours.remote_invalidation),
            BasicProperty::BackwardSupport(ours.backward_support),
        ];
        let words = basics.map(|value| value.word().to_be_bytes());
        self.with_capabilities(|capabilities| {
            let mut start = ArrayVec::<Propval<'_>, { 3 + CAPABILITIES + MAX_REGISTERED }>::new();
            start.extend(basics.iter().zip(&words).map(|(value, word)| Propval {
                which: value.code(),
                data: word,
            }));
            let staying = start.len()..start.len() + capabilities.len();
            start.extend(capabilities.iter().copied());
            start.extend(self.registry.announced());
            // The size is the first element of the set.
            let size = u32::from(self.has_structure());
            let nochg = staying.fold(size, |subset, position| subset | 1 << position);
            let nochg: &[u32] = if nochg == 0 { &[] } else { &[nochg] };
            let connprop = Connprop {
                start: start.as_slice().into(),
                nochg: nochg.into(),
            };
            let header = OptionalHeader {
                xid,
                credits,
                direction: MsgType::Call,
                operation: ROPT_CONNPROP,
            };
            write(buffer, header, &connprop)
        })
    }

    /// Passes our properties of rtrext-02 to `f`; an empty slice if the extension is disabled.
    fn with_capabilities<R>(&self, f: impl FnOnce(&[Propval<'_>]) -> R) -> R {
        match &self.capabilities {
            Some(capabilities) => capabilities.with_xdr(f),
            None => f(&[]),
        }
    }
}

/// Writes a request for a change, or one without changes, which probes the version.
// spec: xc3-4-f, xc3-4.2-c, xc2-4.2-c
pub(super) fn write_request(
    buffer: &mut [u8],
    xid: u32,
    credits: u32,
    wanted: Option<BasicProperty>,
) -> Option<usize> {
    let word = wanted.map(|value| (value.code(), value.word().to_be_bytes()));
    let want: ArrayVec<Propval<'_>, 1> = word
        .iter()
        .map(|(code, word)| Propval {
            which: *code,
            data: word,
        })
        .collect();
    let header = OptionalHeader {
        xid,
        credits,
        direction: MsgType::Call,
        operation: ROPT_REQPROP,
    };
    let request = Reqprop {
        want: want.as_slice().into(),
    };
    write(buffer, header, &request)
}

/// The maximum length in bytes of the content of a property operation.
const MAX_CONTENT: usize = 1024;

/// Writes an operation with its content; returns `None` if the buffer is too small.
fn write(buffer: &mut [u8], header: OptionalHeader, content: &impl Encode) -> Option<usize> {
    header.write_encoded::<MAX_CONTENT>(content, buffer)
}

#[cfg(test)]
mod tests;
