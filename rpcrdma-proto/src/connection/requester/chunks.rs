//! The chunks of a call: in its header, and as returned by its reply (RFC 8166, sections 3.4 and
//! 4.3).
//!
//! `returned` compares a reply with the offered chunks by position, and stores one length for each
//! offered Write chunk, in the order of the results: the consumer finds the length of a result by
//! its index. `grouped` has the same functions for calls in transmissions.

use arrayvec::ArrayVec;

use super::request::Request;
use crate::chunk::{self, ChunkError, ChunkLimits};
use crate::connection::config::MAX_CALL_SEGMENTS;
use crate::connection::output::{CallFailure, CallRegion, ReplyLocation};
use crate::header::{Chunks, OutgoingHeader};
use crate::transfer::{MAX_RESULTS, PathLimits};
use crate::v2::{self, MsgType};

/// Writes the header of a call; `None` if the buffer is too small.
// spec: rfc8166-3.4.4-a, rfc8166-3.4.5-a, rfc8166-3.5.3-b
pub(super) fn write(
    xid: u32,
    request: &Request,
    credits: u32,
    link: &PathLimits<'_>,
    buffer: &mut [u8],
) -> Option<usize> {
    let mut header = OutgoingHeader {
        xid,
        version: link.version,
        credits,
        direction: MsgType::Call,
        ..OutgoingHeader::EMPTY
    };
    if request.chunks.segment_counts().is_empty() {
        return header.write(buffer).ok();
    }
    let wire = request.wire_segments();
    let mut reads = ArrayVec::<v2::ReadSegment, MAX_CALL_SEGMENTS>::new();
    let mut writes = ArrayVec::<v2::WriteChunk<'_>, MAX_RESULTS>::new();
    for (region, mine) in request.regions(&wire) {
        let read = |position| {
            move |target: &v2::Segment| v2::ReadSegment {
                position,
                target: *target,
            }
        };
        match region {
            CallRegion::Call => {
                header.long = true;
                reads.extend(mine.iter().map(read(0)));
            }
            CallRegion::Item(at) => {
                let position = request
                    .chunks
                    .items()
                    .get(at)
                    .map_or(0, |item| item.position);
                reads.extend(mine.iter().map(read(position)));
            }
            CallRegion::Result(_) => writes.push(v2::WriteChunk {
                target: mine.into(),
            }),
            CallRegion::Reply => header.reply = Some(mine),
        }
    }
    (header.reads, header.writes) = (&reads, &writes);
    header.write(buffer).ok()
}

/// Checks a reply against the offered chunks, and stores the lengths of its chunks.
pub(super) fn returned(
    request: &Request,
    chunks: Option<&Chunks<'_>>,
    reply: &mut ReplyLocation,
) -> Result<(), CallFailure> {
    chunks_returned(request, chunks.unwrap_or(&Chunks::none()), reply)?;
    // A reply without inline bytes must be in the Reply chunk.
    match (reply.inline.is_empty(), reply.long) {
        (true, None | Some(0..8)) => Err(CallFailure::Reply(ChunkError::NoPayload)),
        _ => Ok(()),
    }
}

/// Checks the returned chunks against the offered ones.
// spec: rfc8166-4.3.1-a, rfc8166-6.1-d
fn chunks_returned(
    request: &Request,
    chunks: &Chunks<'_>,
    reply: &mut ReplyLocation,
) -> Result<(), CallFailure> {
    // Offered chunks are within our own limits.
    const ALL: ChunkLimits = ChunkLimits {
        max_segments: u32::MAX,
        max_bytes: u32::MAX,
    };
    if !chunks.reads().is_empty() {
        return Err(CallFailure::ReplyReadList);
    }
    let mut writes = chunks.writes(&ALL);
    let mut long = chunks.reply(&ALL).map_err(CallFailure::Reply)?;
    // A request of rtrext-02 has directions and offers no chunks.
    let has_offered = request.grouped().is_none();
    for (region, offered) in request
        .regions(request.chunks.segments())
        .filter(|_| has_offered)
    {
        let offered = offered.iter().copied();
        match region {
            CallRegion::Result(_) => {
                // A responder that omits the list has not used it.
                let bytes = match writes.next() {
                    Some(chunk) => {
                        chunk.and_then(|chunk| chunk::check_returned(offered, chunk.segments()))
                    }
                    None => Ok(0),
                };
                reply.results.push(bytes.map_err(CallFailure::Reply)?);
            }
            CallRegion::Reply => {
                let bytes = long.take().map_or(Ok(0), |chunk| {
                    chunk::check_returned(offered, chunk.segments())
                });
                reply.long = Some(bytes.map_err(CallFailure::Reply)?);
            }
            CallRegion::Call | CallRegion::Item(_) => {}
        }
    }
    if writes.next().is_some() || long.is_some() {
        return Err(CallFailure::Reply(ChunkError::NotAsOffered));
    }
    Ok(())
}
